"""Crawl once, and print when each page came, as JSON: `python -m bench.crawl.one PEER SETTINGS URL…`.

The pages' times are of the machine's monotonic clock, so that those of several workers can be laid side by side.
"""

import json
import sys
import time
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess

from bench.crawl.peers import COMMON, PEERS


class Stopwatch:
    """Note when each page came, and how much this process had worked by then."""

    def __init__(self) -> None:
        #: Monotonic seconds, and the process's own.
        self.pages: list[tuple[float, float]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Watch a crawler."""
        watch = cls()
        crawler.signals.connect(watch._on_response, signals.response_received)
        return watch

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
    print(json.dumps(watch.pages))


if __name__ == "__main__":
    main()
