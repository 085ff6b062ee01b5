"""The things that a page describes in the vocabulary of schema.org, from JSON-LD and microdata alike, in one form.

A thing is a dict as JSON-LD has it: "@type" and the properties, a property that comes several times being a list.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from scrapy.http import HtmlResponse

Thing = dict[str, Any]

#: Things within things that microdata is followed down.
MAX_DEPTH = 5

# Where microdata keeps the value of a property whose element has no text.
_ATTRIBUTES = {
    "meta": "content",
    "link": "href",
    "a": "href",
    "area": "href",
    "img": "src",
    "time": "datetime",
    "data": "value",
    "meter": "value",
}


def things(response: HtmlResponse, kind: str) -> list[Thing]:
    """Return the things of the type *kind* ("Product") that the page is about; those in JSON-LD, else in microdata.

    Numbers in JSON-LD come as Decimal. What is no valid JSON is passed over.
    """
    root: Any = response.selector.root
    found = [thing for thing in _json_ld(root) if is_a(thing, kind)]
    return found or [thing for thing in _microdata(root) if is_a(thing, kind)]


def is_a(thing: object, kind: str) -> bool:
    """Tell whether a thing is of the type *kind*."""
    if not isinstance(thing, dict):
        return False
    types = as_list(thing.get("@type"))
    return any(isinstance(name, str) and name.rpartition("/")[2].rpartition(":")[2] == kind for name in types)


def as_list(value: Any) -> list[Any]:
    """Return the values of a property that may have one, several or none."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _json_ld(root: Any) -> Iterator[Thing]:
    for script in root.iter("script"):
        if script.get("type", "").partition(";")[0].strip().lower() != "application/ld+json":
            continue
        try:
            document = json.loads(script.text or "", strict=False, parse_float=Decimal, parse_int=Decimal)
        except (ValueError, ArithmeticError, RecursionError):
            continue
        for thing in as_list(document):
            if isinstance(thing, dict):
                yield thing
                # The page's own subjects stand in a graph or as its main entity; what lies deeper is mentioned only.
                inner = [*as_list(thing.get("@graph")), *as_list(thing.get("mainEntity"))]
                yield from (one for one in inner if isinstance(one, dict))


def _microdata(root: Any) -> Iterator[Thing]:
    for element in root.xpath("//*[@itemscope and not(@itemprop)]"):
        yield _scope(element, MAX_DEPTH)


def _scope(scope: Any, depth: int) -> Thing:
    thing: Thing = {"@type": scope.get("itemtype", "").split()}
    waiting = list(scope)
    while waiting:
        element = waiting.pop(0)
        if not isinstance(element.tag, str):  # a comment
            continue
        is_scope = element.get("itemscope") is not None
        for name in element.get("itemprop", "").split():
            if not is_scope:
                value: Thing | str = _value(element)
            elif depth:
                value = _scope(element, depth - 1)
            else:
                continue
            thing[name] = [*as_list(thing[name]), value] if name in thing else value
        if not is_scope:
            waiting[:0] = element
    return thing


def _value(element: Any) -> str:
    value: str | None = element.get("content") or element.get(_ATTRIBUTES.get(element.tag, "content"))
    return value.strip() if value else " ".join(element.xpath("string()").split())
