"""Redis killed, and its append-only file torn, under two workers in full flow: nothing is lost, the books balance.

FAULTS_CUTS=50 tears the file in 50 places, each with a crawl of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.servers import EmbeddedRedis, RedisProgram, installed_redis
from crawler import outbox
from crawler.frontier import line
from tests.fleet import Fleet
from tests.small_crawl import Web, Worker

CUTS = int(os.environ.get("FAULTS_CUTS", "4"))

WEB = Web(400, hosts=20)
SEEDS = WEB.seeds()

#: No part of a crawl takes longer, seconds.
PATIENCE_S = 60

_REDIS_CONF = Path(__file__).parents[2] / "redis.conf"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(outbox, "DURABLE_S", 1e9)  # however slow this machine is


class Crawl:
    """Two workers that crawl a small web, on a Redis that may go away at any time."""

    def __init__(self, server: EmbeddedRedis, rng: random.Random) -> None:
        self.server = server
        self.fleet = Fleet(server.url)
        self.workers = [Worker(self.fleet.worker(), WEB) for _ in range(2)]
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False
        self._go = asyncio.Event()
        self._go.set()
        self._at_rest = 0
        #: The log was written anew this many times, as Redis was found restarted.
        self.rewrites = 0

    async def begin(self) -> None:
        for worker in self.workers:
            await worker.open()
            await worker.frontier.reclaim()
            self._tasks.append(asyncio.create_task(self._work(worker)))

    async def end(self) -> None:
        self._ending = True  # before Python 3.12, asyncio.wait_for may swallow a cancellation
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.fleet.close()

    async def _work(self, worker: Worker) -> None:
        met_again = asyncio.Event()
        worker.frontier.line.on_trouble = lambda error: None if error else met_again.set()
        while not self._ending:
            self._at_rest += 1
            await self._go.wait()
            self._at_rest -= 1
            links, _, _, answer = await worker.say(self._rng.choice([3, 20, 100]), want=self._rng.choice([2, 8]))
            if answer.lost:
                await worker.reopen(links)
            if met_again.is_set():
                met_again.clear()
                restarted, _, _ = await worker.frontier.reclaim()
                if restarted:
                    await worker.frontier.rewrite_log()
                    self.rewrites += 1
            worker.begin(self._rng.randrange(6))
            worker.finish(self._rng.randrange(6))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the workers go on until *condition* holds."""

        async def poll() -> None:
            while not condition():
                for task in self._tasks:
                    assert not task.done(), task.exception()
                await asyncio.sleep(0.001)

        await asyncio.wait_for(poll(), PATIENCE_S)

    async def until_done(self, seeds: int) -> None:
        await self.until(lambda: self.fleet.status().done >= seeds)

    async def until_complete(self) -> None:
        """Let the workers finish, and look whether anything is missing, twice there, or known to nobody."""
        await self.until(lambda: self.fleet.status().is_complete and not any(w.has_more_to_say for w in self.workers))
        await self.look()
        status = self.fleet.status()
        assert (status.accepted, status.done + status.dead) == (SEEDS.total(), SEEDS.total()), status

    async def look(self) -> None:
        """Audit the frontier, with nothing under way."""
        self._go.clear()
        await self.until(lambda: self._at_rest == len(self.workers))
        self.fleet.audit()
        self._go.set()

    def is_rewritten(self) -> bool:
        state = self.fleet.redis.info("persistence")
        return not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"])


@asynccontextmanager
async def crawl_on(program: RedisProgram, number: int) -> AsyncIterator[tuple[Crawl, random.Random]]:
    rng = random.Random(number)
    with EmbeddedRedis(program, config_file=_REDIS_CONF) as server:
        crawl = Crawl(server, rng)
        await crawl.begin()
        try:
            yield crawl, rng
        finally:
            await crawl.end()


@pytest.mark.parametrize("program", installed_redis(), ids=str)
async def test_l16_redis_is_killed_again_and_again(program: RedisProgram) -> None:
    async with crawl_on(program, 1) as (crawl, rng):
        for done in range(50, 300, 50):
            await crawl.until_done(done + rng.randrange(20))
            crawl.server.kill()
            crawl.server.start()
        await crawl.until_complete()


def log_of(server: EmbeddedRedis) -> Path:
    """Return the file to which the server appends."""
    files = [*server.data_dir.glob("**/*.incr.aof"), *server.data_dir.glob("appendonly.aof")]
    return max(files, key=lambda file: file.stat().st_mtime)


@pytest.mark.parametrize("number", range(CUTS))
async def test_redis_comes_back_from_a_torn_file_and_is_killed_once_more(number: int) -> None:
    programs = installed_redis()
    async with crawl_on(programs[number % len(programs)], number) as (crawl, rng):
        await crawl.until_done(rng.randrange(20, 250))
        oldest = log_of(crawl.server).stat().st_size
        await crawl.until_done(crawl.fleet.status().done + rng.randrange(1, 50))
        crawl.server.kill()
        log = log_of(crawl.server)
        os.truncate(log, rng.randint(oldest, log.stat().st_size))
        crawl.server.start()
        await crawl.until(lambda: crawl.rewrites > 0 and crawl.is_rewritten())
        await crawl.look()
        await crawl.until_done(min(crawl.fleet.status().done + rng.randrange(50), 300))
        # What the first restart cut off must not come back half at the second.
        crawl.server.kill()
        crawl.server.start()
        crawl.fleet.audit()
        await crawl.until_complete()
