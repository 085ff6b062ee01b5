"""What people and producers write to start a crawl: URLs, `callback--url`, and JSON objects with a Request's fields."""

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec
from scrapy import Request, Spider

from crawler.names import method_named
from crawler.seeds import decode, unreadable

_has_scheme = re.compile(r"(?!javascript:)[a-z][a-z0-9+.]*://", re.IGNORECASE).match


class _Start(msgspec.Struct, forbid_unknown_fields=True):
    """Hold one JSON object; the fields mean what they mean to a Request."""

    url: str
    callback: str = ""
    errback: str = ""
    method: str = "GET"
    headers: dict[str, str | int | list[str]] = {}
    cookies: dict[str, str] | list[dict[str, str | bool]] = {}
    body: str = ""
    meta: dict[str, Any] = {}
    cb_kwargs: dict[str, Any] = {}
    priority: int = 0
    dont_filter: bool = False
    encoding: str = "utf-8"
    flags: list[str] = []


_decode_json = msgspec.json.Decoder(_Start | list[_Start | str]).decode


def parse_start(entry: bytes | str, spider: Spider) -> list[Request]:
    """Return the requests that *entry* asks for: one, or as many as its JSON array has.

    Whitespace around it does not count. Raises BadSeedError, which says why, if any part of *entry* is wrong. O(size).
    """
    try:
        text = (entry.encode() if isinstance(entry, str) else entry).strip()
        if not text.startswith((b"{", b"[")):
            return [_plain(text, spider)]
        found = _decode_json(text)
        return [
            _plain(start.encode(), spider) if isinstance(start, str) else _request(start, spider)
            for start in (found if isinstance(found, list) else [found])
        ]
    except msgspec.DecodeError as error:
        hint = "; a Python repr is not JSON, which has double quotes" if "'" in str(entry) else ""
        raise unreadable(entry, ValueError(f"{error}{hint}")) from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise unreadable(entry, error) from error


def _plain(text: bytes, spider: Spider) -> Request:
    request = decode(text, spider)
    check_url(request.url)
    return request


def _request(start: _Start, spider: Spider) -> Request:
    fields = msgspec.structs.asdict(start)
    for role in ("callback", "errback"):
        fields[role] = method_named(spider, fields[role], role)
    request = Request(**fields)
    check_url(request.url)
    return request


def check_url(url: str) -> None:
    """Raise ValueError where *url* is none that can be fetched."""
    if not _has_scheme(url):
        raise ValueError(f"{url!r} is no URL to fetch: it has to begin with http://, https:// or the like")
    if url.lower().startswith(("http:", "https:")) and not urlsplit(url).hostname:
        raise ValueError(f"{url!r} names no host")
