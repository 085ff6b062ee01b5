"""Conversations with a frontier at any address: one worker's, a stream of calls through a failure, a small crawl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pymongo import MongoClient

from bench.demo.worker import WorkerProcess
from bench.site import SiteConfig, SiteProcess, canonical_url, expected_pages
from crawler.config import Config
from crawler.frontier.client import AsyncClients, Clients
from crawler.frontier.controls import Controls, spiders
from crawler.frontier.dedup import Dedup
from crawler.frontier.frontier import Frontier
from crawler.frontier.keys import Keys
from crawler.frontier.messages import Ack, Link, Want
from crawler.frontier.rules import Rules
from crawler.frontier.status import Status
from tests.fleet import link

KEYS = Keys.of("spider")
LEASE_MS = 30_000

#: No failover in the tests takes longer, seconds.
PATIENCE_S = 60


def config_of(url: str, **settings: str) -> Config:
    """Return the settings of a worker with this REDIS_URL."""
    return Config.from_environ({"REDIS_URL": url, **settings})


@asynccontextmanager
async def worker_at(url: str, dedup: str = "exact", **settings: str) -> AsyncIterator[Frontier]:
    """Give a worker in the midst of a crawl."""
    clients = AsyncClients(config_of(url, **settings))
    rules = Rules("project", Dedup(dedup, 10_000, 0.001), LEASE_MS)  # type: ignore[arg-type]
    frontier = Frontier(clients, KEYS, "worker", rules, clients.where)
    try:
        await frontier.open(begin=True, starting=False)
        yield frontier
    finally:
        await clients.aclose()


def status_at(url: str, keys: Keys = KEYS, **settings: str) -> Status:
    """Return the state of the frontier, as the commands see it."""
    with Clients(config_of(url, **settings)) as clients:
        return Controls(clients(keys.meta), keys, clients.where).status()


async def converse(url: str, **settings: str) -> None:
    """Do with ten links all that a worker does, and look at it as the commands do."""
    async with worker_at(url, dedup="bloom", **settings) as worker:
        links = [link(f"http://host{n}.example/") for n in range(10)]
        answer = await worker.exchange(links, want=Want(4, 4, {}, started=True))
        assert (answer.accepted, len(answer.leases)) == (10, 4)
        await worker.exchange(acks=[Ack(lease.token) for lease in answer.leases[:3]])
        await worker.wait_durable()
        assert await worker.reclaim() == (False, 0, 0)
        assert await worker.leave() == 1
    status = status_at(url, KEYS, **settings)
    assert (status.accepted, status.done, status.queued, status.unbalanced) == (10, 3, 7, 0)
    with Clients(config_of(url, **settings)) as clients:
        assert spiders(clients) == [KEYS.tag]


class Stream:
    """Push distinct links, call after call, and offer again what a server has lost, as a worker does."""

    def __init__(self, worker: Frontier) -> None:
        self._worker = worker
        #: The links of each call that was answered, by its number.
        self._sent: dict[int, list[Link]] = {}
        self.pushed = 0
        #: Calls whose effects the server turned out to have lost.
        self.lost_calls = 0

    async def push(self, count: int = 5) -> None:
        """Push *count* links that nobody has pushed, when Redis takes them."""
        links = [link(f"http://host{self.pushed + n}.example/") for n in range(count)]
        self.pushed += count
        async with asyncio.timeout(PATIENCE_S):
            while (await self._worker.exchange(links)).lost:
                opened = await self._worker.open(begin=False, starting=False, patient=True)
                lost = [seq for seq in self._sent if seq > opened.was]
                self.lost_calls += len(lost)
                links = [link for seq in lost for link in self._sent.pop(seq)] + links
        self._sent[self._worker.seq] = links

    async def push_while(self, condition: Callable[[], object]) -> None:
        """Push for as long as *condition* holds."""
        while await asyncio.to_thread(condition):
            await self.push()


class ShopCrawl:
    """Let workers crawl the sample site, and know what must be stored in the end."""

    def __init__(
        self, site: SiteProcess, start: Callable[..., WorkerProcess], environ: Mapping[str, str], redis_url: str
    ) -> None:
        self._config = site.config
        self._environ = environ
        self._redis_url = redis_url
        arguments = ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={','.join(site.config.host_names)}")
        # A delay, so that there is a middle in which something can happen.
        settings = {"REDIS_URL": redis_url, "DOWNLOAD_DELAY": "0.03"}
        self.workers = [start("shop", *arguments, **settings) for _ in range(2)]

    @property
    def done(self) -> int:
        """Return how many pages were acknowledged."""
        return self._status().done

    def _status(self) -> Status:
        return status_at(self._redis_url, Keys.of("shop"))

    def all_say(self, words: str) -> bool:
        """Tell whether every worker's log has these words."""
        return all(words in worker.log.read_text() for worker in self.workers)

    def assert_complete(self) -> None:
        """Assert that every page of the site is stored once, and that the books balance."""
        with MongoClient[dict[str, Any]](self._environ["MONGO_URI"]) as client:
            stored = client[self._environ["MONGO_DATABASE"]]["raw_pages"].find({}, {"url": 1})
            assert sorted(canonical_url(page["url"]) for page in stored) == sorted(expected_pages(self._config))
        status = self._status()
        assert (status.state, status.unbalanced, status.queued, status.leased) == ("complete", 0, 0, 0)


@contextmanager
def shop_crawl(
    start: Callable[..., WorkerProcess], environ: Mapping[str, str], redis_url: str, products: int = 200
) -> Iterator[ShopCrawl]:
    """Give a crawl of the sample site that has just begun."""
    with SiteProcess(SiteConfig(port=0, products=products)) as site:
        yield ShopCrawl(site, start, environ, redis_url)
