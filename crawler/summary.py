"""What a worker did, said once at its end; and what the whole crawl came to, if it is complete."""

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import create_looping_call

from crawler.commands.tables import duration, table
from crawler.config import Config
from crawler.frontier.keys import Keys
from crawler.metrics import names
from crawler.metrics.worker import Watched, by_label
from crawler.refusal import for_extension

logger = logging.getLogger(__name__)

_SAMPLE_S = 1.0
#: The part of its limit from which on a part is said to hold the crawl back.
_NEAR = 0.5

#: What Scrapy's statistics hold, and what the scheduler counted, by the name that it has here.
_STATS = {
    "pages": "response_received_count",
    "requests": "downloader/request_count",
    "retries": "retry/count",
    "given_up": "retry/max_reached",
    "spider_exceptions": "spider_exceptions/count",
    "items": "item_scraped_count",
    "items_dropped": "item_dropped_count",
    "pages_stored": "storage/pages_stored",
    "items_stored": "storage/items_stored",
    "rejected": "storage/rejected",
    "spooled": "storage/spooled",
    "round_trips": "frontier/conversations",
}
_COUNTS = {"requests_refused": "refused", "seeds_unreadable": "bad", "links": "lookups", "links_seen_before": "hits"}


class Summary:
    """Log one record when the spider is closed, with its figures in words, or as fields where logs are JSON."""

    def __init__(self, crawler: Crawler, spider: Spider, config: Config) -> None:
        self._crawler = crawler
        self._watched = Watched(crawler, config, Keys.of(spider.name, config.frontier_namespace).tag)
        self._began_s = time.monotonic()
        self._began_cpu_s = time.process_time()
        #: Of each part, the sum of how near it was to its limit, sample by sample.
        self._loads = dict.fromkeys(("downloads", "mongodb", "waiting for seeds or hosts"), 0.0)
        self._samples = 0
        self._sampling = create_looping_call(self._sample)
        crawler.signals.connect(self._start, signals.engine_started)
        crawler.signals.connect(self._tell, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension."""
        with for_extension(crawler):
            assert crawler.spider is not None  # noqa: S101 - for the type checker: extensions come after it
            return cls(crawler, crawler.spider, Config.from_settings(crawler.settings))

    def _start(self) -> None:
        self._began_s, self._began_cpu_s = time.monotonic(), time.process_time()
        self._sampling.start(_SAMPLE_S, now=False)

    def _sample(self) -> None:
        now = self._watched.readings()
        limit = now.get(names.CONCURRENCY_LIMIT, 0)
        in_flight = now.get(names.IN_FLIGHT, 0)
        self._samples += 1
        self._loads["downloads"] += in_flight / limit if limit else 0
        self._loads["mongodb"] += now.get(names.BUFFERED_BYTES, 0) / now.get(names.BUFFER_LIMIT, 1)
        busy = in_flight or now.get(names.IN_SCRAPER, 0) or now.get(names.PREFETCHED, 0)
        self._loads["waiting for seeds or hosts"] += not busy

    def _tell(self, reason: str) -> None:
        if self._sampling.running:
            self._sampling.stop()
        figures = self._figures(max(time.monotonic() - self._began_s, 1e-3))
        limit, share = max(figures["limits"].items(), key=lambda item: item[1])
        held_back = f"held back by {limit} ({share:.0%})" if share >= _NEAR else "no part was near its limit"
        if not figures["pages"]:
            held_back = "nothing was fetched"
        words = (
            f"Crawl ended ({reason}): {figures['pages']:,} pages and {figures['items']:,} items in "
            f"{duration(figures['duration_s'])}, {figures['pages_per_s']:.1f} pages/s; {held_back}"
        )
        books = self._books()
        if books:
            words += "; the whole crawl: {accepted:,} seeds accepted, {done:,} done, {dead:,} dead".format(**books)
        told = {"worker": figures} | ({"crawl": books} if books else {})
        extra = {"fields": {"reason": reason, "summary": told}, "details": table(("figure", "value"), _rows(told))}
        logger.info("%s", words, extra=extra)

    def _figures(self, took_s: float) -> dict[str, Any]:
        stats = self._crawler.stats.get_stats()
        scheduler = self._watched.scheduler
        counts = scheduler.conversation.counts if scheduler else {}
        figures: dict[str, Any] = {"duration_s": round(took_s, 1)}
        figures |= {name: stats.get(stat, 0) for name, stat in _STATS.items()}
        figures |= {name: counts.get(count, 0) for name, count in _COUNTS.items()}
        for name, labelled in zip(("responses", "download_errors", "log_messages"), names.LABELLED_STATS, strict=True):
            figures[name] = {value: number for value, number in by_label(labelled, stats).items() if number}
        pages = figures["pages"]
        figures["pages_per_s"] = round(pages / took_s, 2)
        figures["round_trips_per_page"] = round(figures["round_trips"] / pages, 4) if pages else 0
        figures["limits"] = self._limits(took_s, stats.get("frontier/conversation_seconds", 0.0))
        return figures

    def _limits(self, took_s: float, conversation_s: float) -> dict[str, float]:
        """Return how near each part was to its limit on average: 1 is at it."""
        loads = {name: load / max(self._samples, 1) for name, load in self._loads.items()}
        loads["parsing"] = (time.process_time() - self._began_cpu_s) / took_s
        loads["redis"] = conversation_s / took_s
        return {name: round(min(load, 1.0), 3) for name, load in loads.items()}

    def _books(self) -> dict[str, int]:
        scheduler = self._watched.scheduler
        books = scheduler.books if scheduler else None
        if books is None:
            return {}
        return {name: getattr(books, name) for name in ("accepted", "done", "dead", "removed", "filtered")}


def _rows(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Give the figures that are not 0, one a row."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name} ")
        elif value:
            yield prefix + name, f"{value:,}"
