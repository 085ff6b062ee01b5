"""What a site answers to a request: its pages, its traps and its control endpoints; no sockets here."""

import json
import zlib
from collections.abc import Callable
from typing import NamedTuple

from bench.site.addresses import CANONICAL, Addresses, Spelling
from bench.site.config import SiteConfig
from bench.site.expected import as_json, iterate_pages, iterate_products
from bench.site.pages import Pages
from bench.site.shop import Kind, Page, Shop, mix
from bench.site.traffic import Traffic

# Pages never change, so any date will do.
_LAST_MODIFIED = "Wed, 01 Jan 2025 00:00:00 GMT"


class Request(NamedTuple):
    """The parts of an HTTP request that matter here; `host` in lower case and without a port."""

    method: str
    host: str
    target: str
    if_none_match: str = ""
    if_modified_since: str = ""


class Response(NamedTuple):
    """An answer: `headers` are whole lines, `delay_s` is how long to wait before it is sent."""

    status: int
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    headers: str = ""
    delay_s: float = 0.0


class Site:
    """Answer the requests to one site.

    Keeps in memory only what was asked: the pages that have failed once, and the traffic.
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self.traffic = Traffic(config.log_size)
        self._shop = Shop(config)
        self._addresses = Addresses(self._shop)
        self._pages = Pages(self._shop, self._addresses)
        self._hosts = {name: number for number, name in enumerate(config.host_names)}
        self._version = zlib.crc32(repr(config).encode())
        self._failed: set[Page] = set()
        self._refusals_left = config.throttled_requests
        self._control: dict[str, Callable[[], Response]] = {
            "/_expected": lambda: _text("\n".join(iterate_pages(config))),
            "/_products": lambda: _text("\n".join(map(as_json, iterate_products(config)))),
            "/_stats": lambda: _text(json.dumps(self.traffic.stats())),
            "/_log": lambda: _text("\n".join(json.dumps(entry._asdict()) for entry in self.traffic.log())),
            "/_reset": self._reset,
        }

    def answer(self, request: Request) -> Response:
        """Answer a request; call `traffic.end(request.host)` when the answer was sent, unless `is_control`."""
        if self.is_control(request):
            return self._control[request.target]()
        host = self._hosts.get(request.host, -1)
        if host < 0:
            kind, response = "unknown host", self._misdirected(request.host)
        elif request.target == "/robots.txt":
            kind, response = "robots", self._robots()
        else:
            page = self._addresses.page_at(host, request.target)
            kind, response = page.kind.name.lower(), self._page(page, request)
        self.traffic.begin(request.host, kind, response.status, request.target)
        return response

    def is_control(self, request: Request) -> bool:
        """Tell whether the request is for a control endpoint: served on any host name, not counted, not logged."""
        return request.target in self._control

    def _page(self, page: Page, request: Request) -> Response:
        config = self.config
        if request.host == config.throttled_host and self._refusals_left:
            self._refusals_left -= 1
            return _error(config.throttle_status, "Too busy.", f"Retry-After: {config.retry_after_s}\r\n")
        if page.kind is Kind.MISSING:
            return _error(404, "No such page.")
        if page.kind is Kind.REDIRECT:
            return self._redirect(page)
        delay_s = config.slow_s if self._shop.is_slow(page) else 0.0
        if self._shop.fails_once(page) and page not in self._failed:
            self._failed.add(page)
            return _error(500, "Fails once; ask again.")._replace(delay_s=delay_s)
        if not config.etags:
            return Response(200, self._pages.html(page), delay_s=delay_s)
        etag = f'"{mix(self._version, *page):016x}"'
        validators = f"ETag: {etag}\r\nLast-Modified: {_LAST_MODIFIED}\r\n"
        # If-None-Match wins over If-Modified-Since where a client sends both (RFC 9110, section 13.2.2).
        if request.if_none_match:
            fresh = etag in request.if_none_match or request.if_none_match == "*"
        else:
            fresh = request.if_modified_since == _LAST_MODIFIED
        if fresh:
            return Response(304, headers=validators, delay_s=delay_s)
        return Response(200, self._pages.html(page), headers=validators, delay_s=delay_s)

    def _redirect(self, page: Page) -> Response:
        # The new address comes in another spelling than most links to it, as it does in the wild.
        spelling = Spelling(query=1) if "query" in self.config.spellings else CANONICAL
        location = self._addresses.url(Page(Kind.PRODUCT, page.number), spelling)
        status = 301 if self._shop.is_moved_for_good(page.number) else 302
        return _error(status, "Moved.", f"Location: {location}\r\n")

    def _robots(self) -> Response:
        delay = f"Crawl-delay: {self.config.crawl_delay_s:g}\n" if self.config.crawl_delay_s else ""
        return _text(f"User-agent: *\nDisallow: /private/\n{delay}")

    def _misdirected(self, host: str) -> Response:
        return _error(421, f"No site {host!r} here, only {', '.join(self.config.host_names)}.")

    def _reset(self) -> Response:
        self._failed.clear()
        self._refusals_left = self.config.throttled_requests
        self.traffic.reset()
        return _text("reset")


def _text(text: str) -> Response:
    return Response(200, (text.rstrip("\n") + "\n").encode() if text else b"", "text/plain; charset=utf-8")


def _error(status: int, text: str, headers: str = "") -> Response:
    return Response(status, f"{text}\n".encode(), "text/plain; charset=utf-8", headers)
