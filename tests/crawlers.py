"""Crawlers that do not run, for the parts that need one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.test import get_crawler


class PlainSpider(Spider):
    name = "plain"


MakeCrawler = Callable[..., Crawler]


@pytest.fixture
async def make_crawler(redis_url: str) -> AsyncIterator[MakeCrawler]:
    """Give the function that makes a crawler as each worker has one, with settings as keywords."""
    made: list[Crawler] = []

    def make(**settings: object) -> Crawler:
        crawler = get_crawler(PlainSpider, {"REDIS_URL": redis_url, "EXTENSIONS_BASE": {}, **settings})
        crawler.crawling = True
        crawler.spider = PlainSpider.from_crawler(crawler)
        made.append(crawler)
        return crawler

    yield make
    for crawler in made:
        for _, error in await crawler.signals.send_catch_log_async(signals.engine_stopped):
            assert error is None
