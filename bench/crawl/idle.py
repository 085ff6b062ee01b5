"""Workers without work, many in one process, until SIGTERM: `python -m bench.crawl.idle WORKERS REDIS_URL`."""

import sys

from scrapy.crawler import CrawlerProcess

from bench.crawl.peers import COMMON, PEERS


def main() -> None:
    """Wait for seeds."""
    workers, redis_url = sys.argv[1:]
    peer = PEERS["ours"]
    process = CrawlerProcess(COMMON | peer.settings | {"REDIS_URL": redis_url, "CLOSE_WHEN_COMPLETE": False})
    for _ in range(int(workers)):
        process.crawl(peer.spider, start_urls=[])
    process.start()


if __name__ == "__main__":
    main()
