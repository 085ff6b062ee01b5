"""The stored form of a Request: `callback--url`, and behind it only what differs from the default.

    parse_item--http://shop.example/p/1                an ordinary link; the callback may be empty (`parse`)
    http://shop.example/a--b                           the same, written by hand: no identifier before the `--`
    parse_item--http://shop.example/p/1 02 DEPTH       meta is {"depth": DEPTH}, a byte from 1 to 255
    parse_item--http://shop.example/p/1 03 DEPTH TEXT  the same (0: no depth), and TEXT is the Referer header
    parse_item--http://shop.example/p/1 01 MSGPACK     a map of whatever differs (seedtail.py)

(01 to 03 are control characters; the spaces are not there. A queue may keep when a seed came in front of it, behind
04: stamp.py.) No URL that holds a control character is ever put in
front, so the first one ends it. A seed without any may be written by hand, and its URL is made safe as Scrapy does;
a seed with a tail was written here, and its URL is exact. Whatever changes this form takes a new control character.
"""

import re
import string
from urllib.parse import quote

from scrapy import Request, Spider
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached

from crawler.errors import BadSeedError, NotDataError
from crawler.names import method_name, method_named
from crawler.seedtail import pack_tail, queued_name, shown, unpack_tail

_FULL, _DEPTH, _REFERER = 1, 2, 3
_DEPTH_TAILS = (b"", *(bytes([_DEPTH, depth]) for depth in range(1, 256)))
_find_control = re.compile(rb"[\x00-\x1f]").search
#: A URL that Scrapy leaves as it is, however often it makes it safe; what stands before an `@` it unquotes again.
_is_settled = re.compile(r"[!-?A-~]+").fullmatch


def encode(request: Request, spider: Spider, *, priority: bool = True) -> bytes:
    """Return *request* as a seed; its callback and errback must be methods of *spider*.

    *priority* tells whether the seed holds the request's priority, or its keeper does.
    Raises NotDataError, which names the request and what can't be stored. O(size); 2 µs for an ordinary link.
    """
    method = request.callback
    name = "" if method is None else method_name(spider, method)
    url = request.url
    ordinary = type(request) is Request and not request.dont_filter and not (priority and request.priority)
    if name is not None and ordinary and _is_settled(url):
        tail = _short_tail(request)
        if tail is not None:
            return f"{name}--{url}".encode() + tail
    return _encode_full(request, spider, priority)


def around(request: Request, spider: Spider) -> tuple[bytes, bytes] | None:
    """Return what stands before and behind the URL in the seed of any ordinary link that has all else from *request*.

    None where such a seed takes a full tail. Neither its class nor its priority nor dont_filter counts.
    """
    method = request.callback
    name = "" if method is None else method_name(spider, method)
    tail = _short_tail(request)
    return None if name is None or tail is None else (f"{name}--".encode(), tail)


def decode(data: bytes | str, spider: Spider, *, priority: int | None = None) -> Request:
    """Return the request that *data* stores, for *spider*; *priority*, if given, becomes its priority.

    Nothing in *data* is ever executed: it names methods of the spider and loaded classes of requests, or is refused.
    Raises BadSeedError, which says why. O(size); about 5 µs for an ordinary link.
    """
    try:
        return _decode(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data, spider, priority)
    except Exception as error:  # whatever is in Redis; and a request class of the user's may raise
        raise unreadable(data, error) from error


def unreadable(data: bytes | str, error: Exception) -> BadSeedError:
    """Return what says that *data* can't be read as a request because of *error*."""
    why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
    return BadSeedError(f"seed {text[:200]!r}: {why}")


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
        name = "" if request.callback in (None, NO_CALLBACK) else queued_name(request, spider, "callback")
        printable = request.url.isprintable()
        url = request.url if printable else quote(request.url, safe=string.punctuation, errors="replace")
        tail = pack_tail(request, spider, with_priority=with_priority, with_url=not printable)
    except NotDataError:
        raise
    except Exception as error:  # a request class of the user's, or a value in it, may raise anything
        raise NotDataError(f"{shown(request)} can't be stored: {type(error).__name__}: {error}") from error
    return f"{name}--{url}".encode() + bytes([_FULL]) + tail


def _decode(seed: bytes, spider: Spider, priority: int | None) -> Request:
    control = _find_control(seed)
    if control is None or control[0].isspace():
        name, url = _split(seed.strip())
        if _find_control(seed.strip()):
            raise ValueError("a control character stands in its URL")
        return Request(url, method_named(spider, name, "callback"), priority=priority or 0)
    name, url = _split(seed[: control.start()])
    method = method_named(spider, name, "callback")
    version, tail = control[0][0], seed[control.end() :]
    if version == _FULL:
        return unpack_tail(tail, url, method, spider, priority)
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


def _split(front: bytes) -> tuple[str, str]:
    if front.startswith(b"\x80"):
        raise ValueError(
            "a pickled request, as scrapy-redis's own queues store them; let its workers finish that queue"
        )
    text = front.decode()
    name, dashes, url = text.partition("--")
    return (name, url) if dashes and (not name or name.isidentifier()) else ("", text)
