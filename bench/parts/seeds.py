"""What a queued seed costs in Redis, in the queues of scrapy-redis and in this one, on real or made-up addresses."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from redis import Redis
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy_redis.queue import Base, FifoQueue, PriorityQueue  # type: ignore[import-untyped]

from bench import addresses
from bench.contest import BATCH, opened
from bench.crawl.spiders import RequestsSpider
from bench.frame import REDIS_CONF, Bars, Bench, Figure, Figures, Part
from bench.servers import EmbeddedRedis
from crawler import seeds
from crawler.fingerprints import RequestFingerprinter
from crawler.frontier.messages import UNFILTERED, Link
from crawler.links import Expander, Links

T = TypeVar("T")

_PEERS = {
    "scrapy_redis_priority": "scrapy-redis, priority queue",
    "scrapy_redis_fifo": "scrapy-redis, FIFO queue",
    "callback_url_list": "plain list of callback--url",
    "ours_shuffled": "Seedbed, shuffled",
    "ours_in_order": "Seedbed, in collected order",
}
#: Redis's own settings of lists, which the peers get.
_USUAL = {"list-compress-depth": "0", "list-max-listpack-size": "-2"}


class Scales:
    """Weigh what a queue keeps for the same addresses, on a server with the deployment's settings."""

    def __init__(self, server: EmbeddedRedis, client: Any) -> None:
        self._server = server
        self._client = client
        self._spider = RequestsSpider()
        crawler = Crawler(RequestsSpider)
        crawler.request_fingerprinter = RequestFingerprinter()
        self._expander = Expander(crawler, self._spider)
        self._ours = {name: client.config_get(name)[name] for name in _USUAL}

    def scrapy_redis(self, urls: Sequence[str], queue: type[Base]) -> float:
        """Return the bytes a seed in a queue of scrapy-redis; pushes are pipelined, which changes nothing in Redis."""
        self._begin(_USUAL)
        for requests in _batches(self._requests(urls)):
            pipeline = self._client.pipeline(transaction=False)
            pipelined = queue(pipeline, self._spider, "queue")
            for request in requests:
                pipelined.push(request)
            pipeline.execute()
        return self._weight("queue") / len(queue(self._client, self._spider, "queue"))

    def plain_list(self, urls: Sequence[str]) -> float:
        """Return the bytes a seed where `callback--url` stands in a list."""
        self._begin(_USUAL)
        for requests in _batches(self._requests(urls)):
            self._client.rpush("queue", *(seeds.encode(request, self._spider) for request in requests))
        return self._weight("queue") / len(urls)

    def ours(self, urls: Sequence[str], depth: int = 0) -> float:
        """Return the bytes a seed in the frontier; what was seen is not counted."""
        self._begin(self._ours)
        return asyncio.run(self._push(urls, {"depth": depth} if depth else {}))

    async def _push(self, urls: Sequence[str], meta: dict[str, int]) -> float:
        async with opened(self._server.url, self._spider.name) as frontier:
            for some in _batches(urls):
                links = Links(some, callback=self._spider.parse, meta=meta)
                await frontier.exchange([Link(0, b"", UNFILTERED, seed) for _, seed in self._expander.expand(links)])
            return self._weight(f"{frontier.keys.base}*") / (await frontier.status()).queued

    def _requests(self, urls: Sequence[str]) -> list[Request]:
        return [Request(url, self._spider.parse) for url in urls]

    def _begin(self, settings: dict[str, str]) -> None:
        self._client.flushall()
        for name, value in settings.items():
            self._client.config_set(name, value)

    def _weight(self, pattern: str) -> int:
        """Return the bytes of all keys, as Redis says: exactly, whatever else it uses memory for."""
        return sum(self._client.memory_usage(key, samples=0) for key in self._client.scan_iter(pattern, count=1000))


def measure(bench: Bench) -> Figures:
    """Weigh each queue on the same addresses, then the frontier on a million."""
    urls = addresses.read(bench.urls) if bench.urls else addresses.made_up(48_000)
    many = list(addresses.recombined(urls, bench.choose(1_000_000, 100_000)))
    figures: Figures = {}
    with EmbeddedRedis(config_file=REDIS_CONF, options={"appendonly": "no"}) as server:
        client = Redis.from_url(server.url, decode_responses=True)
        scales = Scales(server, client)
        ways: dict[str, Callable[[], float]] = {
            "scrapy_redis_priority": lambda: scales.scrapy_redis(urls, PriorityQueue),
            "scrapy_redis_fifo": lambda: scales.scrapy_redis(urls, FifoQueue),
            "callback_url_list": lambda: scales.plain_list(urls),
            "ours_shuffled": lambda: scales.ours(addresses.shuffled(urls)),
            "ours_in_order": lambda: scales.ours(urls),
            "ours_shuffled_with_depth": lambda: scales.ours(addresses.shuffled(urls), depth=3),
            "ours_in_order_with_depth": lambda: scales.ours(urls, depth=3),
            "recombined.ours_shuffled": lambda: scales.ours(addresses.shuffled(many)),
            "recombined.ours_in_order": lambda: scales.ours(many),
        }
        for name in bench.steps(list(ways), lambda name: f"seeds in Redis: {name}"):
            figures[f"{name}.bytes_per_seed"] = Figure.of([ways[name]()])
        client.close()
    source = f"of {bench.urls.name}" if bench.urls else "that were made up"
    length = sum(map(len, urls)) / len(urls)
    bench.notes.append(
        f"seeds: {len(urls):,} addresses {source}, {length:.1f} characters on average; {len(many):,} recombined from "
        f"their hosts, folders and pages; {server.program}."
    )
    return figures


def _batches(found: Sequence[T]) -> Iterator[Sequence[T]]:
    return (found[first : first + BATCH] for first in range(0, len(found), BATCH))


PART = Part(
    "seeds",
    "What a queued seed costs",
    """The same requests, each with a callback, are put into an empty Redis, and what its keys weigh then (MEMORY USAGE
    with SAMPLES 0, all keys of the queue) is divided by the requests that are queued. The frontier has the deployment's
    settings of Redis, the peers have Redis's own. What was seen is not counted here; it has a part of its own. Links
    that were crawled carry their depth, two bytes before compression; start URLs don't.""",
    measure,
    {"bytes_per_seed": "bytes of Redis a queued seed"},
    [Bars("Bytes a queued seed", "bytes_per_seed", _PEERS)],
)
