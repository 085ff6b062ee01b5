"""Crawl once, and print when each page came, and how late timers were: `python -m bench.crawl.one PEER SETTINGS URL…`.

The pages' times are of the machine's monotonic clock, so that those of several workers can be laid side by side.
"""

import asyncio
import json
import sys
import time
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess

from bench.crawl.peers import COMMON, PEERS

#: Between two looks at how late the event loop is.
LOOK_EVERY_S = 0.02


class Stopwatch:
    """Note when each page came, how much this process had worked by then, and how late timers fired meanwhile."""

    def __init__(self) -> None:
        #: Monotonic seconds, and the process's own.
        self.pages: list[tuple[float, float]] = []
        #: How much later than due a timer of the event loop fired, fifty times a second.
        self.lags_s: list[float] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Watch a crawler."""
        watch = cls()
        crawler.signals.connect(watch._on_response, signals.response_received)
        crawler.signals.connect(watch._on_opened, signals.spider_opened)
        return watch

    def _on_opened(self) -> None:
        self._look(time.monotonic())

    def _look(self, due_s: float) -> None:
        now_s = time.monotonic()
        self.lags_s.append(now_s - due_s)
        asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look, now_s + LOOK_EVERY_S)

    def _on_response(self) -> None:
        self.pages.append((time.monotonic(), time.process_time()))


def main() -> None:
    """Crawl from the URLs on; SETTINGS (JSON) go before those of the peer."""
    name, more, *urls = sys.argv[1:]
    peer = PEERS[name]
    settings: dict[str, Any] = COMMON | peer.settings | json.loads(more)
    settings["EXTENSIONS"] = {Stopwatch: 0, **settings.get("EXTENSIONS", {})}
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(peer.spider)
    process.crawl(crawler, start_urls=urls)
    process.start()
    watch = crawler.get_extension(Stopwatch)
    assert watch is not None  # noqa: S101 - for the type checker
    print(json.dumps({"pages": watch.pages, "lags_s": watch.lags_s}))


if __name__ == "__main__":
    main()
