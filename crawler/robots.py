"""Scrapy's robots.txt middleware, with its answer for everybody who waits for it."""

import asyncio

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached


class SharedRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Obey robots.txt from a host's first request on.

    Scrapy 2.19 tells the rules to one of the requests that wait for a host's robots.txt, and lets the others pass: it
    has them all wait on one Deferred, whose result the first one takes away. Here they wait on a task.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._fetches: dict[str, asyncio.Task[RobotParser | None]] = {}

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules for the request's host; None: it has none."""
        host = urlparse_cached(request).netloc
        if host not in self._fetches:
            self._fetches[host] = asyncio.create_task(super().robot_parser(request))
        return await asyncio.shield(self._fetches[host])
