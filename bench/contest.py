"""Clients of a frontier, peer against peer: the same links go in from Scrapy's objects, and come out as requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy_redis.dupefilter import RFPDupeFilter  # type: ignore[import-untyped]
from scrapy_redis.queue import FifoQueue  # type: ignore[import-untyped]

from bench.crawl.spiders import RequestsSpider
from bench.frame import Run
from bench.swarm import frontier_of, new_link
from crawler import seeds
from crawler.config import Config
from crawler.fingerprints import RequestFingerprinter
from crawler.frontier.client import AsyncClients
from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import FILTERED, Ack, Link, Want
from crawler.links import Expander, Links

LINKS_PER_PAGE = 20
#: Seeds that a worker takes at once, with 16 requests at a time.
POP = 64
#: Links that it sends at once.
BATCH = Config().frontier_batch
#: Exchanges over which costs are counted.
EXCHANGES = 20
#: scrapy-redis gets a part of the links only: it takes so many times longer for each.
SHARE_OF_SCRAPY_REDIS = 8


class Contest:
    """Push *links* links into an empty Redis, and take them out again, in the way of each peer."""

    def __init__(self, redis_url: str, client: Any, links: int) -> None:
        self._redis_url = redis_url
        self._client = client
        self._spider = RequestsSpider()
        self._crawler = Crawler(RequestsSpider)
        self._crawler.request_fingerprinter = RequestFingerprinter()
        self._urls = [f"http://host{n % 50}.example/category/{n % 97}/product-{n}.html" for n in range(links)]

    def scrapy_redis(self) -> Run:
        """Use its filter and its queue as its scheduler does: one link after another."""
        self._client.flushall()
        requests = self._requests()[::SHARE_OF_SCRAPY_REDIS]
        dupefilter, queue = RFPDupeFilter(self._client, "seen"), FifoQueue(self._client, self._spider, "queue")
        began_s = perf_counter()
        for request in requests:
            if not dupefilter.request_seen(request):
                queue.push(request)
        pushed_s = perf_counter()
        while queue.pop():
            pass
        return _rates(len(requests), push=pushed_s - began_s, pop=perf_counter() - pushed_s)

    def ours_requests(self) -> Run:
        """Fingerprint and encode each Request, and send a batch at a time."""
        fingerprint = self._crawler.request_fingerprinter.fingerprint

        def links_of(request: Request) -> Iterator[Link]:
            seed = seeds.encode(request, self._spider, priority=False)
            yield Link(request.priority, fingerprint(request), FILTERED, seed)

        return asyncio.run(self._ours(self._requests(), links_of))

    def ours_links(self) -> Run:
        """Expand Links, and send a batch at a time."""
        expander = Expander(self._crawler, self._spider)

        def links_of(links: Links) -> Iterator[Link]:
            for fingerprint, seed in expander.expand(links):
                yield Link(links.priority, fingerprint, FILTERED, seed)

        pages = range(0, len(self._urls), LINKS_PER_PAGE)
        return asyncio.run(self._ours([Links(self._urls[n : n + LINKS_PER_PAGE]) for n in pages], links_of))

    def _requests(self) -> list[Request]:
        return [Request(url) for url in self._urls]

    async def _ours(self, found: Sequence[Any], links_of: Callable[[Any], Iterator[Link]]) -> Run:
        self._client.flushall()
        async with opened(self._redis_url, self._spider.name) as frontier:
            began_s = perf_counter()
            batch: list[Link] = []
            for one in found:
                batch += links_of(one)
                if len(batch) >= BATCH:
                    await frontier.exchange(batch)
                    batch = []
            await frontier.exchange(batch)
            push_s = perf_counter() - began_s
            popped, pop_s, complete_s = await self._take_all(frontier)
        if popped != len(self._urls):
            raise RuntimeError(f"{len(self._urls):,} links went into the frontier, and {popped:,} seeds came out")
        return _rates(popped, push=push_s, pop=pop_s, complete=complete_s)

    async def _take_all(self, frontier: Frontier) -> tuple[int, float, float]:
        popped, pop_s, complete_s = 0, 0.0, 0.0
        begin_s = perf_counter()
        while taken := (await frontier.exchange(want=Want(POP, POP, {}, started=True))).leases:
            for lease in taken:
                seeds.decode(lease.seed, self._spider, priority=lease.priority)
            popped_s = perf_counter()
            await frontier.exchange(acks=[Ack(lease.token) for lease in taken])
            pop_s += popped_s - begin_s
            begin_s = perf_counter()
            complete_s += begin_s - popped_s
            popped += len(taken)
        return popped, pop_s, complete_s


async def steady_costs(redis_url: str, client: Any) -> Run:
    """Return what a busy worker asks of Redis for a page: the same numbers on every machine.

    In each exchange it acknowledges as many pages as fill a batch with their links, and takes as many seeds.
    """
    pages = BATCH // (LINKS_PER_PAGE + 1)
    want = Want(pages, pages, {}, started=True)
    async with opened(redis_url, "steady") as frontier:
        await frontier.exchange([new_link() for _ in range(BATCH)])
        held = (await frontier.exchange(want=want)).leases
        before = client.info("stats")
        for _ in range(EXCHANGES):
            links = [new_link() for _ in range(pages * LINKS_PER_PAGE)]
            held = (await frontier.exchange(links, [Ack(lease.token) for lease in held], (), want)).leases
        after = client.info("stats")
    grown = {name: after[name] - before[name] for name in ("total_commands_processed", "total_net_input_bytes")}
    return {
        "commands_per_page": (grown["total_commands_processed"] - 1) / EXCHANGES / pages,
        "request_bytes_per_page": grown["total_net_input_bytes"] / EXCHANGES / pages,
    }


@asynccontextmanager
async def opened(redis_url: str, spider: str, **settings: Any) -> AsyncIterator[Frontier]:
    """Give a worker's session with the frontier of *spider*; *settings* are those that are not the default."""
    config = Config(redis_url=redis_url, **settings)
    clients = AsyncClients(config)
    frontier = frontier_of(clients, spider, "contestant", config)
    await frontier.open(begin=True, starting=False)
    yield frontier
    await frontier.leave()
    await clients.aclose()


def _rates(links: int, **took_s: float) -> Run:
    return {f"{what}_per_s": links / seconds for what, seconds in took_s.items()}
