"""Simulated workers: the real client of the frontier, and no downloads; `python -m bench.swarm SWARM` runs some.

Each does what a busy worker does: of the pages that it has done it sends the links, acknowledges them, and takes as
many new seeds, all in one exchange. SWARM is the JSON of a `Swarm`; what was measured is printed as JSON.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from subprocess import PIPE
from time import monotonic
from typing import NamedTuple, Self

from bench.frame import ROOT
from crawler.config import Config
from crawler.frontier.client import AsyncClients
from crawler.frontier.dedup import Dedup
from crawler.frontier.frontier import Frontier
from crawler.frontier.keys import Keys
from crawler.frontier.messages import FILTERED, Ack, Lease, Link, Want
from crawler.frontier.rules import Rules

#: Pages that a worker reports at once, as a busy one does: its batch of 512 entries is 24 pages with 20 links each.
PAGES_AT_ONCE = 24
HOSTS = 200
#: Links that were seen before are drawn from the last so many.
REMEMBERED = 5000


@dataclass(frozen=True, kw_only=True)
class Swarm:
    """Describe simulated workers that share the frontier of one spider."""

    redis_url: str
    spider: str = "bench"
    workers: int = 1
    seconds: float = 5.0
    #: Pages that each worker does a second; 0: as many as it can.
    pages_per_s: float = 0.0
    links_per_page: int = 20
    #: Of them, links that nobody has seen before. With one, the queue stays as long as it is.
    new_per_page: int = 1
    #: Seeds that are queued before the start.
    queued: int = 20_000


class Outcome(NamedTuple):
    """Hold what a swarm did; times are those of the exchanges, from call to answer."""

    pages: int
    seconds: float
    p50_ms: float
    p99_ms: float


class _Worker:
    def __init__(self, swarm: Swarm, clients: AsyncClients, number: int) -> None:
        self._swarm = swarm
        self._pool: deque[Link] = deque(maxlen=REMEMBERED)
        self.frontier = frontier_of(clients, swarm.spider, f"simulated:{os.getpid()}:{number}", Config())
        self.frontier.line.on_call = lambda _, took_s: self.took_s.append(took_s)
        self.took_s: list[float] = []
        self.pages = 0

    async def fill(self, seeds: int) -> None:
        """Queue so many seeds."""
        while seeds > 0:
            links = [new_link() for _ in range(min(seeds, 512))]
            self._pool.extend(links)
            await self.frontier.exchange(links)
            seeds -= len(links)

    async def run(self, until_s: float) -> None:
        """Work until then."""
        swarm = self._swarm
        self.took_s.clear()
        period_s = PAGES_AT_ONCE / swarm.pages_per_s if swarm.pages_per_s else 0.0
        due_s = monotonic() + random.random() * period_s  # or they would all call at once
        held: list[Lease] = []
        want = Want(PAGES_AT_ONCE, PAGES_AT_ONCE, {}, started=True)
        while monotonic() < until_s:
            if period_s:
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                due_s += period_s
            links = [link for _ in held for link in self._links()]
            answer = await self.frontier.exchange(links, [Ack(lease.token) for lease in held], (), want)
            self.pages += len(held)
            held = answer.leases

    def _links(self) -> Iterator[Link]:
        for number in range(self._swarm.links_per_page):
            if number < self._swarm.new_per_page or not self._pool:
                link = new_link()
                self._pool.append(link)
                yield link
            else:
                yield random.choice(self._pool)


def frontier_of(clients: AsyncClients, spider: str, worker: str, config: Config) -> Frontier:
    """Return a worker's session with the frontier of *spider*."""
    return Frontier(clients, Keys.of(spider), worker, Rules("bench", Dedup.of(config), 600_000), clients.where)


def new_link() -> Link:
    """Return a link to a page that nobody has seen: 60 bytes as a seed, as ordinary ones are."""
    token = os.urandom(16)
    return Link(
        0, token, FILTERED, b"--http://host%d.example/category/%s" % (token[0] % HOSTS, token.hex()[:20].encode())
    )


async def run(swarm: Swarm) -> Outcome:
    """Let the workers of *swarm* work."""
    config = Config(redis_url=swarm.redis_url)
    # Each has its own, as real workers do; besides, the connections of one client are bounded.
    clients = [AsyncClients(config) for _ in range(swarm.workers)]
    workers = [_Worker(swarm, own, number) for number, own in enumerate(clients)]
    for worker in workers:
        await worker.frontier.open(begin=True, starting=False)
        await worker.fill(swarm.queued // swarm.workers)
    print("ready", flush=True)
    sys.stdin.readline()  # several processes begin at once
    began_s = monotonic()
    await asyncio.gather(*(worker.run(began_s + swarm.seconds) for worker in workers))
    seconds = monotonic() - began_s
    for worker in workers:
        await worker.frontier.leave()
    for own in clients:
        await own.aclose()
    took_ms = sorted(1000 * took_s for worker in workers for took_s in worker.took_s)
    return Outcome(sum(worker.pages for worker in workers), seconds, percentile(took_ms, 50), percentile(took_ms, 99))


def percentile(values: list[float], percent: int) -> float:
    """Return the value of sorted *values* below which *percent* of them lie."""
    return values[min(len(values) * percent // 100, len(values) - 1)]


class SwarmProcess:
    """Run a swarm in a process of its own: it has queued its seeds when the `with` block begins, and waits for `go`."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "bench.swarm", json.dumps(asdict(self._swarm))]
        self._process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT)
        self._line()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.communicate()

    def go(self) -> None:
        """Let the workers work."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        print(file=self._process.stdin, flush=True)

    def outcome(self) -> Outcome:
        """Wait until its time is over."""
        return Outcome(*json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the simulated workers failed: see above")
        return line


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Swarm(**json.loads(sys.argv[1]))))), flush=True)
