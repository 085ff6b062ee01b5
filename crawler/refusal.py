"""How a worker that can't start, or can't go on, says so: once, in words, no traceback, and exit code 1."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured

from crawler.errors import SeedbedError

logger = logging.getLogger(__name__)

_refused: WeakSet[Crawler] = WeakSet()


def refuse(crawler: Crawler, error: SeedbedError) -> None:
    """Say why *crawler* can't start. It is closed once everything is open, so that everything is closed in order."""
    if is_refused(crawler):
        return
    _refused.add(crawler)
    logger.critical("%s", error)
    fail(crawler)

    def close_at_once() -> None:
        raise CloseSpider("refused")

    crawler.signals.connect(close_at_once, signals.spider_opened, weak=False)


@contextmanager
def for_extension(crawler: Crawler) -> Iterator[None]:
    """Make an error of the block a refusal: to be used where an extension is built, which is left out."""
    try:
        yield
    except SeedbedError as error:
        refuse(crawler, error)
        raise NotConfigured from None


def is_refused(crawler: Crawler) -> bool:
    """Tell whether *crawler* is going to be closed before it does anything."""
    return crawler in _refused


def fail(crawler: Crawler) -> None:
    """Make Scrapy's commands end with exit code 1 when *crawler* closes: they do when it has no spider at its end."""

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signals.spider_closed, weak=False)
