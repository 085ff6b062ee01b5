"""The only code that a queued seed can name: methods of its spider, and loaded classes of requests."""

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple, cast

from scrapy import Request, Spider

Method = Callable[..., Any]

#: Methods by which Scrapy itself drives a spider; no response belongs there, whether overridden or not.
_MACHINERY = frozenset(vars(Spider)) - {"parse", "_parse"}


class _Methods(NamedTuple):
    names: frozenset[str]
    name_of: dict[object, str]


_found: dict[type[Spider], _Methods] = {}


def _methods(spider_class: type[Spider]) -> _Methods:
    if spider_class not in _found:
        _found[spider_class] = _find_methods(spider_class)
    return _found[spider_class]


def _find_methods(spider_class: type[Spider]) -> _Methods:
    function_of: dict[str, FunctionType] = {}
    for name in dir(spider_class):
        member = inspect.getattr_static(spider_class, name)
        function = member.__func__ if isinstance(member, classmethod) else member
        if isinstance(function, FunctionType) and name not in _MACHINERY and not name.startswith("__"):
            function_of[name] = function
    # Of several names of one function, its own wins.
    by_preference = sorted(function_of, key=lambda name: function_of[name].__name__ == name)
    return _Methods(frozenset(function_of), {function_of[name]: name for name in by_preference})


def method_name(spider: Spider, method: object) -> str | None:
    """Return the name under which *spider* has *method*, or None where it is no method of this very spider."""
    owner = getattr(method, "__self__", None)
    if owner is not spider and owner is not type(spider):
        return None
    return _methods(type(spider)).name_of.get(getattr(method, "__func__", None))


def method_named(spider: Spider, name: str, role: str) -> Method | None:
    """Return the method of *spider* that is named *name*, None for ""; no other attribute is ever looked up.

    Raises ValueError, which names the *role* that the method was to have, where the spider has no such method.
    """
    if not name:
        return None
    method = getattr(spider, name) if name in _methods(type(spider)).names else None
    if not inspect.ismethod(method):
        raise ValueError(f"its {role} {name!r} is no method of the spider {spider.name!r}")
    return cast("Method", method)


def class_name(request_class: type[Request]) -> str:
    """Return the name for `class_named`, which finds a later class where one has the same name."""
    return f"{request_class.__module__}.{request_class.__name__}"


def class_named(name: str) -> type[Request] | None:
    """Return the subclass of Request that is named *name* ("module.Class"), if its module is loaded."""
    return {class_name(subclass): subclass for subclass in _subclasses(Request)}.get(name)


def _subclasses(request_class: type[Request]) -> Iterator[type[Request]]:
    for subclass in request_class.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
