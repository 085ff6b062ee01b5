"""The full tail of a seed: a map of plain data with all that tells a request from an ordinary link."""

from typing import Any

import msgspec
from scrapy import Request, Spider
from scrapy.http.headers import Headers
from scrapy.http.request import NO_CALLBACK

from crawler.errors import NotDataError
from crawler.names import Method, class_name, class_named, method_name, method_named
from crawler.plaindata import ForeignValueError, pack, unpack


class _Tail(msgspec.Struct, kw_only=True):
    """Hold what differs from an ordinary link; the fields are those of a Request, and some more."""

    method: str = "GET"
    body: bytes = b""
    headers: dict[bytes, list[bytes]] = {}
    cookies: Any = {}
    meta: dict[Any, Any] = {}
    #: Of the meta, kept out of it to save its name.
    depth: int | None = None
    cb_kwargs: dict[Any, Any] = {}
    priority: int = 0
    errback: str = ""
    #: The callback is Scrapy's own marker that there is none.
    no_callback: bool = False
    dont_filter: Any = False
    flags: Any = []
    encoding: str = "utf-8"
    #: "module.Class", where that is not Scrapy's Request.
    request_class: str = ""
    #: The attributes that only this class has.
    extra: dict[str, Any] = {}
    #: The URL, where the one in front is but a readable stand-in.
    url: str = ""


_DEFAULT = _Tail()
#: What names each field in a stored map. These stand in queues: never change one, only add.
_LETTERS = dict(zip(_Tail.__struct_fields__, "mbhctdkpeofgnlxu", strict=True))
_FIELDS = {letter: field for field, letter in _LETTERS.items()}


def pack_tail(request: Request, spider: Spider, *, with_priority: bool, with_url: bool) -> bytes:
    """Return the tail of *request*; its callback goes in front of the URL, unless it is Scrapy's NO_CALLBACK.

    Raises NotDataError, or whatever a request class of the user's raises.
    """
    tail = _differences(request, spider, with_priority)
    if with_url:
        tail["url"] = request.url
    _typed(tail)  # what is of a wrong type could not be read back
    try:
        return pack({_LETTERS[field]: value for field, value in tail.items()})
    except ForeignValueError as error:
        letter, *path = error.path
        where = _FIELDS[str(letter)] + "".join(f"[{step!r:.100}]" for step in path)
        raise NotDataError(f"{shown(request)}: {where} is {error.what}, and only plain data can be queued") from None


def unpack_tail(data: bytes, url: str, method: Method | None, spider: Spider, priority: int | None) -> Request:
    """Return the request of *url* and *method* whose tail is *data*; *priority*, if given, goes before the stored one.

    Raises ValueError, or whatever the constructor of a request class of the user's raises.
    """
    stored = unpack(data)
    if not isinstance(stored, dict):
        raise ValueError("its tail is no map")  # noqa: TRY004 - a bad value, not a caller's mistake
    if unknown := stored.keys() - _FIELDS.keys():
        raise ValueError(f"its fields {', '.join(map(repr, unknown))} are not known to this version")
    tail = _typed({_FIELDS[letter]: value for letter, value in stored.items()})
    kind = class_named(tail.request_class) if tail.request_class else Request
    if kind is None:
        raise ValueError(f"no module that is loaded here has its class {tail.request_class}")
    if unknown := tail.extra.keys() - _own_attributes(kind):
        raise ValueError(f"{tail.request_class} has no attribute {', '.join(map(repr, unknown))}")
    if tail.depth is not None:
        tail.meta["depth"] = tail.depth
    request = kind(
        url=tail.url or url,
        callback=NO_CALLBACK if tail.no_callback else method,
        errback=method_named(spider, tail.errback, "errback"),
        method=tail.method,
        body=tail.body,
        encoding=tail.encoding,
        meta={**tail.meta, "verbatim_url": True},  # or Scrapy would make the URL safe once more
        cb_kwargs=tail.cb_kwargs,
        priority=tail.priority if priority is None else priority,
        **tail.extra,
    )
    request.meta.pop("verbatim_url")
    request.meta.update(tail.meta)
    # Past the constructor, which makes some of these over and, in some classes, adds to them.
    headers = Headers(encoding=tail.encoding)
    dict.update(headers, tail.headers)
    request.headers = headers
    request.method, request.cookies, request.flags = tail.method, tail.cookies, tail.flags
    request.dont_filter = tail.dont_filter
    return request


def _typed(tail: dict[str, Any]) -> _Tail:
    return msgspec.convert(tail, _Tail, builtin_types=(bytes,))  # which else would also come from base64 in a str


def _differences(request: Request, spider: Spider, with_priority: bool) -> dict[str, Any]:
    """Return the fields of the tail that are not the default."""
    tail = {
        field: value
        for field in ("method", "body", "cookies", "cb_kwargs", "dont_filter", "flags", "encoding")
        if (value := getattr(request, field)) != getattr(_DEFAULT, field)
    }
    if request.callback is NO_CALLBACK:
        tail["no_callback"] = True
    if request.errback is not None:
        tail["errback"] = queued_name(request, spider, "errback")
    if request.headers:
        tail["headers"] = dict(request.headers)
    meta = dict(request.meta)
    if type(meta.get("depth")) is int:
        tail["depth"] = meta.pop("depth")
    if meta:
        tail["meta"] = meta
    if with_priority and request.priority:
        tail["priority"] = request.priority
    kind = type(request)
    if kind is not Request:
        tail["request_class"] = class_name(kind)
        if class_named(tail["request_class"]) is not kind:
            raise NotDataError(f"{shown(request)}: its class {class_name(kind)} is hidden by another of this name")
        if extra := {field: getattr(request, field) for field in _own_attributes(kind)}:
            tail["extra"] = extra
    return tail


def queued_name(request: Request, spider: Spider, role: str) -> str:
    """Return the name of the method that is the *role* of *request*; raises NotDataError if *spider* has it not."""
    method = getattr(request, role)
    name = method_name(spider, method)
    if name is None:
        what = getattr(method, "__qualname__", None) or repr(method)
        raise NotDataError(
            f"{shown(request)}: {role} {what} is no method of the spider {spider.name!r}, and only those can be "
            "queued, by their names; what else it needs may stand in cb_kwargs"
        )
    return name


def _own_attributes(kind: type[Request]) -> frozenset[str]:
    return frozenset(kind.attributes).difference(Request.attributes)


def shown(request: Request) -> str:
    """Return how messages name *request*."""
    return f"<{request.method} {request.url}>".encode("utf-8", "backslashreplace").decode()
