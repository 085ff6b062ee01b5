"""The stored form of a Request: `callback--url`, and behind it only what differs from the default.

    parse_item--http://shop.example/p/1                an ordinary link; the callback may be empty (`parse`)
    http://shop.example/a--b                           the same, written by hand: no identifier before the `--`
    parse_item--http://shop.example/p/1 02 DEPTH       meta is {"depth": DEPTH}, a byte from 1 to 255
    parse_item--http://shop.example/p/1 03 DEPTH TEXT  the same (0: no depth), and TEXT is the Referer header
    parse_item--http://shop.example/p/1 01 MSGPACK     a map of whatever differs, its fields those of `_Tail`

(01 to 03 are control characters; the spaces are not there.) No URL that holds a control character is ever put in
front, so the first one ends it. A seed without any may be written by hand, and its URL is made safe as Scrapy does;
a seed with a tail was written here, and its URL is exact. Whatever changes this form takes a new control character.
"""

import re
import string
from typing import Any
from urllib.parse import quote

import msgspec
from scrapy import Request, Spider
from scrapy.http.headers import Headers
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached

from crawler.errors import BadSeedError, NotDataError
from crawler.names import Method, class_name, class_named, method_name, method_named
from crawler.plaindata import ForeignValueError, pack, unpack

_FULL, _DEPTH, _REFERER = 1, 2, 3
_DEPTH_TAILS = (b"", *(bytes([_DEPTH, depth]) for depth in range(1, 256)))
_find_control = re.compile(rb"[\x00-\x1f]").search
#: A URL that Scrapy leaves as it is, however often it makes it safe; what stands before an `@` it unquotes again.
_is_settled = re.compile(r"[!-?A-~]+").fullmatch


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


def encode(request: Request, spider: Spider, *, priority: bool = True) -> bytes:
    """Return *request* as a seed; its callback and errback must be methods of *spider*.

    *priority* tells whether the seed holds the request's priority, or its keeper does.
    Raises NotDataError, which names the request and what can't be stored. O(size); 2 µs for an ordinary link.
    """
    method = request.callback
    name = "" if method is None else method_name(spider, method)
    url = request.url
    if name is not None and type(request) is Request and not (priority and request.priority) and _is_settled(url):
        tail = _short_tail(request)
        if tail is not None:
            return f"{name}--{url}".encode() + tail
    return _encode_full(request, spider, priority)


def decode(data: bytes | str, spider: Spider, *, priority: int | None = None) -> Request:
    """Return the request that *data* stores, for *spider*; *priority*, if given, becomes its priority.

    Nothing in *data* is ever executed: it names methods of the spider and loaded classes of requests, or is refused.
    Raises BadSeedError, which says why. O(size); about 5 µs for an ordinary link.
    """
    try:
        return _decode(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data, spider, priority)
    except Exception as error:  # whatever is in Redis; and a request class of the user's may raise
        why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise BadSeedError(f"seed {data[:200]!r}: {why}") from error


def slot_of(request: Request) -> str | None:
    """Return the download slot that *request* asks for, where that is not simply its URL's host."""
    slot = request.meta.get("download_slot")
    return slot if isinstance(slot, str) and slot != urlparse_cached(request).hostname else None


def _short_tail(request: Request) -> bytes | None:
    """Return the tail of an ordinary link, or None where it takes a full one.

    The public properties would make the dictionaries that are not there, at three times the cost.
    """
    if (
        request.method != "GET"
        or request._body
        or request.errback is not None
        or request.dont_filter
        or (request._cb_kwargs is not None and request._cb_kwargs != {})
        or (request._cookies is not None and request._cookies != {})
        or (request._flags is not None and request._flags != [])
        or request._encoding != "utf-8"
    ):
        return None
    depth = 0
    if request._meta:
        depth = request._meta.get("depth", 0)
        if len(request._meta) != 1 or type(depth) is not int or not 0 < depth < 256:
            return None
    if not request._headers:
        return _DEPTH_TAILS[depth]
    referers = request._headers.getlist(b"Referer")
    if len(request._headers) == 1 and len(referers) == 1:
        return bytes((_REFERER, depth)) + referers[0]
    return None


def _encode_full(request: Request, spider: Spider, with_priority: bool) -> bytes:
    try:
        name, tail = _differences(request, spider, with_priority)
        _typed(tail)  # what is of a wrong type could not be read back
        if request.url.isprintable():
            url = request.url
        else:
            url = quote(request.url, safe=string.punctuation, errors="replace")
            tail["url"] = request.url
        data = pack({_LETTERS[field]: value for field, value in tail.items()})
    except ForeignValueError as error:
        letter, *path = error.path
        where = _FIELDS[str(letter)] + "".join(f"[{step!r:.100}]" for step in path)
        raise NotDataError(f"{_shown(request)}: {where} is {error.what}, and only plain data can be queued") from None
    except NotDataError:
        raise
    except Exception as error:  # a request class of the user's, or a value in it, may raise anything
        raise NotDataError(f"{_shown(request)} can't be stored: {type(error).__name__}: {error}") from error
    return f"{name}--{url}".encode() + bytes([_FULL]) + data


def _differences(request: Request, spider: Spider, with_priority: bool) -> tuple[str, dict[str, Any]]:
    """Return the callback's name and the fields of the tail that are not the default."""
    tail = {
        field: value
        for field in ("method", "body", "cookies", "cb_kwargs", "dont_filter", "flags", "encoding")
        if (value := getattr(request, field)) != getattr(_DEFAULT, field)
    }
    name = ""
    if request.callback is NO_CALLBACK:
        tail["no_callback"] = True
    elif request.callback is not None:
        name = _name(request, spider, "callback")
    if request.errback is not None:
        tail["errback"] = _name(request, spider, "errback")
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
            raise NotDataError(f"{_shown(request)}: its class {class_name(kind)} is hidden by another of this name")
        if extra := {field: getattr(request, field) for field in _own_attributes(kind)}:
            tail["extra"] = extra
    return name, tail


def _name(request: Request, spider: Spider, role: str) -> str:
    method = getattr(request, role)
    name = method_name(spider, method)
    if name is None:
        what = getattr(method, "__qualname__", None) or repr(method)
        raise NotDataError(
            f"{_shown(request)}: {role} {what} is no method of the spider {spider.name!r}, and only those can be "
            "queued, by their names; what else it needs may stand in cb_kwargs"
        )
    return name


def _own_attributes(kind: type[Request]) -> frozenset[str]:
    return frozenset(kind.attributes).difference(Request.attributes)


def _shown(request: Request) -> str:
    return f"<{request.method} {request.url}>".encode("utf-8", "backslashreplace").decode()


def _decode(seed: bytes, spider: Spider, priority: int | None) -> Request:
    control = _find_control(seed)
    if control is None or control[0].isspace():
        name, url = _split(seed.strip())
        if _find_control(seed.strip()):
            raise ValueError("a control character stands in its URL")
        return Request(url, _method(spider, name, "callback"), priority=priority or 0)
    name, url = _split(seed[: control.start()])
    method = _method(spider, name, "callback")
    version, tail = control[0][0], seed[control.end() :]
    if version == _FULL:
        return _decode_full(url, method, tail, spider, priority)
    if version not in (_DEPTH, _REFERER) or not tail or (version == _DEPTH and len(tail) > 1):
        raise ValueError(f"format {version} is not known to this version")
    request = Request(
        url,
        method,
        headers={b"Referer": tail[1:]} if version == _REFERER else None,
        meta={"depth": tail[0], "verbatim_url": True} if tail[0] else {"verbatim_url": True},
        priority=priority or 0,
    )
    del request.meta["verbatim_url"]
    return request


def _decode_full(url: str, method: Method | None, data: bytes, spider: Spider, priority: int | None) -> Request:
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
        errback=_method(spider, tail.errback, "errback"),
        method=tail.method,
        body=tail.body,
        encoding=tail.encoding,
        meta={**tail.meta, "verbatim_url": True},
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


def _split(front: bytes) -> tuple[str, str]:
    if front.startswith(b"\x80"):
        raise ValueError(
            "a pickled request, as scrapy-redis's own queues store them; let its workers finish that queue"
        )
    text = front.decode()
    name, dashes, url = text.partition("--")
    return (name, url) if dashes and (not name or name.isidentifier()) else ("", text)


def _method(spider: Spider, name: str, role: str) -> Method | None:
    if not name:
        return None
    method = method_named(spider, name)
    if method is None:
        raise ValueError(f"its {role} {name!r} is no method of the spider {spider.name!r}")
    return method
