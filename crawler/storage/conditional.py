"""Conditional requests (CRAWL_CONDITIONAL): a page that has not changed is taken from MongoDB, not from its site.

A request is given the ETag and the date of the page that is stored; a site whose page is still that one answers 304
without a body, and the spider gets the stored page.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Self
from weakref import WeakSet

import pymongo
from pymongo.errors import PyMongoError
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response

from crawler.config import Config
from crawler.errors import BadPageError
from crawler.storage.client import open_database, reason
from crawler.storage.itemtypes import RAW_PAGES
from crawler.storage.origin import UNCONDITIONAL
from crawler.storage.stored import Page, response_of

logger = logging.getLogger(__name__)

#: The flag of a response whose body is the stored one.
NOT_MODIFIED = "not-modified"
#: How long MongoDB may take; it is not worth waiting longer, as the page can be fetched.
LOOKUP_S = 2.0
#: How long a MongoDB that did not answer is left alone.
PAUSE_S = 10.0

#: The flags of what Scrapy gave before all of it had come: the site would say that it has not changed.
_CUT = ("dataloss", "download_stopped")
#: Of the stored page -> of the request.
_CONDITIONS = {"Etag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
#: Who sends these knows what for.
_OWN_CONDITIONS = ("If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range")
#: What a 304 says of itself, and not of the page (RFC 9111, 3.2; the stored body is decoded).
_NOT_OF_THE_PAGE = (
    *("Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade", "Te", "Proxy-Connection"),
    *("Content-Length", "Content-Encoding", "Content-Range", "Content-Type"),
)


class ConditionalRequests:
    """The downloader middleware; it belongs between Scrapy's for redirects and for cookies.

    So what it adds to a request is gone before that is sent again elsewhere, and the cookies of a stored page are set
    by nobody. One find in MongoDB for each GET, by `_id`, of two headers; one more for each page that has not changed.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._database = open_database(config)
        self._asked: WeakSet[Request] = WeakSet()
        self._away_until_s = 0.0
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware. Raises NotConfigured where it is off, or no pages are stored."""
        config = Config.from_settings(crawler.settings)
        if not (config.crawl_conditional and config.storage):
            raise NotConfigured
        return cls(crawler, config)

    async def process_request(self, request: Request) -> None:
        """Add the conditions under which the site is to send its page."""
        if request.method != "GET" or request.meta.get(UNCONDITIONAL):
            return
        if any(name in request.headers for name in _OWN_CONDITIONS):
            return
        page = await self._find(request, {f"headers.{name}": 1 for name in _CONDITIONS})
        for name, values in (page or {}).get("headers", {}).items():
            request.headers[_CONDITIONS[name]] = values[0].encode("latin-1")
            self._asked.add(request)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        """Give the stored page in the place of a 304; should it be gone, the request is sent again."""
        asked = self._forget(request)
        if not asked or response.status != 304:
            return response
        page = await self._find(request, {}, asked)
        if page is not None:
            page["headers"] |= _said_of_page(response.headers)
            try:
                stored = response_of(page, request, flags=(NOT_MODIFIED,))
            except BadPageError as error:
                logger.warning("Fetched again: %s, as %s", request.url, error)
            else:
                self._crawler.stats.inc_value("storage/not_modified")
                return stored
        again = request.copy()
        again.meta[UNCONDITIONAL] = True
        again.dont_filter = True
        return again

    def process_exception(self, request: Request, exception: Exception) -> None:  # noqa: ARG002 - Scrapy's interface
        """Leave the request as it was, as it may be sent again."""
        self._forget(request)

    def _forget(self, request: Request) -> dict[str, str]:
        """Take the conditions off; return them, as MongoDB finds the page that they are of: empty, there were none."""
        if request not in self._asked:
            return {}
        self._asked.remove(request)
        asked = {f"headers.{name}": request.headers.pop(condition, None) for name, condition in _CONDITIONS.items()}
        return {name: values[0].decode("latin-1") for name, values in asked.items() if values}

    async def _find(self, request: Request, fields: dict[str, Any], asked: Mapping[str, str] = {}) -> Page | None:
        """Return *fields* of the page that is stored whole, if it is still the one that was *asked* for.

        None where there is none, or MongoDB does not answer in time.
        """
        if time.monotonic() < self._away_until_s:
            return None
        key = self._crawler.request_fingerprinter.fingerprint(request)
        whole = {"_id": key, "status": 200, "flags": {"$nin": _CUT}, **asked}
        try:
            with pymongo.timeout(LOOKUP_S):
                return await self._database[RAW_PAGES].find_one(whole, fields or None)
        except PyMongoError as error:
            if not self._away_until_s:
                logger.warning("Requests are sent without conditions while MongoDB gives no pages (%s)", reason(error))
            self._away_until_s = time.monotonic() + PAUSE_S
            return None

    async def _close(self) -> None:
        await self._database.client.close()


def _said_of_page(headers: Headers) -> dict[str, list[str]]:
    """Return what the headers of a 304 say of the page, as it is stored."""
    said = Headers(headers)
    for name in _NOT_OF_THE_PAGE:
        said.pop(name, None)
    return {name.decode("latin-1"): [value.decode("latin-1") for value in said.getlist(name)] for name in said}
