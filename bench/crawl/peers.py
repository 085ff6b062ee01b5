"""The ways to crawl that are compared: what each of them is set to, and what all of them share."""

from dataclasses import dataclass, field
from typing import Any

from scrapy import Spider

from bench.crawl.spiders import LinksSpider, RequestsSpider

#: The same for everybody.
COMMON: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    # Scrapy starts so many tasks for each page, 100 if it is not told: a millisecond's work for nothing.
    "CONCURRENT_ITEMS": 10,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
}


@dataclass(frozen=True)
class Peer:
    """Describe one way to crawl."""

    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    spider: type[Spider] = RequestsSpider
    uses_redis: bool = True


_OURS: dict[str, Any] = {
    "BOT_NAME": "bench",
    "SCHEDULER": "crawler.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "REQUEST_FINGERPRINTER_CLASS": "crawler.fingerprints.RequestFingerprinter",
    "REFERRER_POLICY": "no-referrer",
    "STORAGE": False,
}

PEERS = {
    "scrapy": Peer("plain Scrapy, in memory", uses_redis=False),
    "scrapy_redis": Peer(
        "scrapy-redis",
        {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            # Of its queues the one that takes the fewest commands.
            "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
            "SCHEDULER_PERSIST": True,
        },
    ),
    "ours": Peer("Seedbed, an unmodified spider", _OURS),
    "ours_links": Peer("Seedbed, with Links", _OURS, LinksSpider),
}
