"""The ways to crawl that are compared: what each of them is set to, and what all of them share."""

from dataclasses import dataclass, field
from typing import Any

from scrapy import Spider

from bench.crawl.spiders import LinksSpider, RequestsSpider, StoringSpider

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


_OURS: dict[str, Any] = {
    "BOT_NAME": "bench",
    "SCHEDULER": "crawler.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "REQUEST_FINGERPRINTER_CLASS": "crawler.fingerprints.RequestFingerprinter",
    "REFERRER_POLICY": "no-referrer",
    "STORAGE": False,
}

#: Besides, where pages and items go to MongoDB.
_STORING: dict[str, Any] = {
    "STORAGE": True,
    "EXTENSIONS": {"crawler.storage.Storage": 0},
    "SPIDER_MIDDLEWARES": {"crawler.storage.RawPages": 1000},
}

_SCRAPY_REDIS: dict[str, Any] = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    # Of its queues the one that takes the fewest commands.
    "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
    "SCHEDULER_PERSIST": True,
}

#: Those that are timed.
TIMED = {
    "scrapy": Peer("plain Scrapy, in memory"),
    "scrapy_redis": Peer("scrapy-redis", _SCRAPY_REDIS),
    "ours": Peer("Seedbed, an unmodified spider", _OURS),
    "ours_links": Peer("Seedbed, with Links", _OURS, LinksSpider),
    "ours_metrics": Peer(
        "Seedbed, with metrics",
        _OURS | {"EXTENSIONS": {"crawler.metrics.Metrics": 0}, "METRICS_PORT": 0, "METRICS_HOST": "127.0.0.1"},
    ),
}

#: Those that are killed: they store what they find in MongoDB.
STORING = {
    "scrapy_redis_storing": Peer(
        "scrapy-redis",
        _SCRAPY_REDIS | {"ITEM_PIPELINES": {"bench.crawl.pipeline.InsertOne": 300}},
        StoringSpider,
    ),
    "ours_storing": Peer(
        "Seedbed",
        _OURS
        | _STORING
        | {
            # Else most of the time would go into waiting for dead workers' leases.
            "FRONTIER_LEASE_S": 3,
            "STORE_FLUSH_S": 0.5,
        },
        StoringSpider,
    ),
}

#: The same worker without and with the storage.
STORED = {
    "ours": TIMED["ours"],
    "ours_stored": Peer(
        "Seedbed, pages in MongoDB",
        _OURS | _STORING,
    ),
}

PEERS = TIMED | STORING | STORED
