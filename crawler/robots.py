"""Scrapy's robots.txt middleware, with one answer for all: for the requests that wait for it, and for all workers."""

import asyncio
import logging
from functools import partial
from typing import Any

import zstandard
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler

from crawler.cache import Cache
from crawler.config import Config
from crawler.refusal import for_extension

logger = logging.getLogger(__name__)

#: What of a robots.txt counts: as much as RFC 9309 asks for, and a little more.
MAX_BYTES = 512 << 10
#: How long a host counts as having no rules that did not answer, or whose server failed.
UNREACHABLE_S = 60.0
#: Hosts whose rules a worker keeps parsed.
PARSED = 5_000

#: The status of a host that gave no answer at all; and of one that this spider's middlewares do not let it ask, which
#: says nothing to other spiders.
_NONE, _REFUSED = 0, -1


class SharedRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Obey robots.txt from a host's first request on; one worker fetches it, for ROBOTSTXT_LIFETIME_S and for all.

    Scrapy 2.19 tells the rules to one of the requests that wait for a host's robots.txt, and lets the others pass: it
    has them all wait on one Deferred, whose result the first one takes away. Here they wait on a task.

    As with Scrapy, a host that has no robots.txt (any status but 2xx), or can't be asked for it, may be crawled.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        with for_extension(crawler):
            self._lifetime_s = Config.from_settings(crawler.settings).robotstxt_lifetime_s
            self._answers = Cache.of(crawler, "robots.txt", self._lifetime_of)
        #: Of each origin, an answer and what was made of it.
        self._parsed: dict[str, tuple[dict[str, Any], asyncio.Task[RobotParser]]] = {}

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules for the request's host; None: nobody knows them."""
        url = urlparse_cached(request)
        origin = f"{url.scheme}://{url.netloc.rpartition('@')[2].lower()}"
        answer = await self._answers.get_or_make(origin, partial(self._fetch, origin))
        if answer["status"] <= _NONE:
            return None
        known = self._parsed.get(origin)
        if known is None or known[0] != answer:
            if len(self._parsed) >= PARSED:
                del self._parsed[next(iter(self._parsed))]
            known = self._parsed[origin] = answer, asyncio.create_task(self._parse(answer["body"], request))
        return await asyncio.shield(known[1])

    async def _fetch(self, origin: str) -> dict[str, Any]:
        robots = Request(
            f"{origin}/robots.txt",
            priority=self.DOWNLOAD_PRIORITY,
            # Whatever lets the request through that wants it.
            meta={"dont_obey_robotstxt": True, "allow_offsite": True},
            callback=NO_CALLBACK,
        )
        self._stats.inc_value("robotstxt/request_count")
        try:
            response = await self.crawler.engine.download_async(robots)
        except IgnoreRequest:
            return {"status": _REFUSED, "body": b""}
        except Exception as error:  # noqa: BLE001 - whatever the download handlers and middlewares of a project raise
            logger.error("Error downloading %s: %s", robots, error, extra={"spider": self.crawler.spider})  # noqa: TRY400
            self._stats.inc_value(f"robotstxt/exception_count/{type(error)}")
            return {"status": _NONE, "body": b""}
        self._stats.inc_value("robotstxt/response_count")
        self._stats.inc_value(f"robotstxt/response_status_count/{response.status}")
        # An error page holds no rules, whatever it says.
        rules = _counting(response.body) if 200 <= response.status < 300 else b""
        return {"status": response.status, "body": zstandard.compress(rules)}

    async def _parse(self, body: bytes, request: Request) -> RobotParser:
        parser: RobotParser = build_from_crawler(self._parserimpl, self.crawler, zstandard.decompress(body))
        await self.crawler.signals.send_catch_log_async(
            signal=signals.robots_parsed, robotparser=parser, request=request
        )
        return parser

    def _lifetime_of(self, answer: dict[str, Any]) -> float:
        if answer["status"] == _REFUSED:
            return 0
        is_known = _NONE < answer["status"] < 500 and answer["status"] != 429
        return self._lifetime_s if is_known else min(self._lifetime_s, UNREACHABLE_S)


def _counting(body: bytes) -> bytes:
    """Return the lines that count: what is left of one that is cut may forbid far more than the whole."""
    return body if len(body) <= MAX_BYTES else body[: max(body.rfind(end, 0, MAX_BYTES) for end in (b"\n", b"\r")) + 1]
