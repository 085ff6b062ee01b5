"""A crawl whose workers, Redis and MongoDB are killed in its midst: what it lost, and what it stored twice."""

import random
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pymongo import MongoClient

from bench.crawl.track import SITE, Track
from bench.frame import Run
from bench.servers import EmbeddedMongo, find_mongo
from bench.site import canonical_url, expected_pages
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys

WORKERS = 2
DATABASE = "ordeal"
#: A killed server is away for this long.
AWAY_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True)
class Plan:
    """Say how large the site is, and how often what is killed, at random moments (the same for each peer)."""

    products: int
    worker_kills: int
    redis_kills: int
    mongo_kills: int
    seed: int = 1
    timeout_s: float = 300

    def victims(self, expected: int) -> list[tuple[int, str]]:
        """Return (after how many requests to the site, whom) for each kill, in order."""
        draw = random.Random(self.seed)
        names = ["worker"] * self.worker_kills + ["redis"] * self.redis_kills + ["mongo"] * self.mongo_kills
        moments = sorted(draw.sample(range(expected // 20, expected * 9 // 10), len(names)))
        return list(zip(moments, draw.sample(names, len(names)), strict=True))


def ordeal(plan: Plan, peer: str) -> Run:
    """Let *peer* crawl, kill as planned, wait until nothing is left to do, and count."""
    with ExitStack() as stack:
        track = stack.enter_context(Track(replace(SITE, products=plan.products)))
        mongo = stack.enter_context(EmbeddedMongo(replica_set="rs0" if find_mongo().is_mongod else None))
        client: MongoClient[dict[str, Any]] = stack.enter_context(MongoClient(mongo.url))
        expected = expected_pages(track.site.config)
        log = Path(stack.enter_context(TemporaryDirectory(prefix="seedbed-ordeal-")), "workers.log")
        crawl = _Crawl(track, mongo, peer, log)
        stack.callback(crawl.end)
        crawl.run(plan, len(expected))
        stored = Counter(canonical_url(item["url"]) for item in client[DATABASE]["items"].find({}, {"url": 1}))
    return {
        "lost_pages": len(expected - stored.keys()),
        "doubled_documents": stored.total() - len(stored),
        "kills": crawl.kills,
        "pages": len(expected),
        "crashed_workers": crawl.crashes,
    }


class _Crawl:
    """Hold what runs."""

    def __init__(self, track: Track, mongo: EmbeddedMongo, peer: str, log: Path) -> None:
        self._track = track
        self._mongo = mongo
        self._peer = peer
        self._log = log
        self._workers: list[subprocess.Popen[str]] = []
        self.kills = 0
        #: Workers that ended in an error by themselves.
        self.crashes = 0
        self._draw = random.Random(2)

    def run(self, plan: Plan, expected: int) -> None:
        """Keep workers at work until nothing is left, and kill whom the plan says when it says."""
        victims = plan.victims(expected)
        self._start(self._track.site.config.start_url)
        deadline_s = time.monotonic() + plan.timeout_s
        while self._tend():
            if victims and self._track.site.stats()["requests"] >= victims[0][0]:
                self._kill(victims.pop(0)[1])
                self.kills += 1
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{self._peer}: the crawl was not over after {plan.timeout_s:.0f} s")
            time.sleep(POLL_S)

    def end(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def _tend(self) -> bool:
        """See that as many workers run as there should; False when there is nothing left to do."""
        for worker in [worker for worker in self._workers if worker.poll() is not None]:
            self._workers.remove(worker)
            self.crashes += worker.returncode != 0
        if self._is_left():
            while len(self._workers) < WORKERS:
                self._start()
        return bool(self._workers)

    def _start(self, *urls: str) -> None:
        settings = {"MONGO_URI": self._mongo.url, "MONGO_DATABASE": DATABASE}
        self._workers.append(self._track.start(self._peer, urls, self._log, **settings))

    def _kill(self, victim: str) -> None:
        if victim == "worker":
            worker = self._workers.pop(self._draw.randrange(len(self._workers)))
            worker.kill()
            worker.wait()
            return
        server = self._track.server if victim == "redis" else self._mongo
        server.kill()
        time.sleep(AWAY_S)
        server.start()

    def _is_left(self) -> bool:
        """Tell whether anything is queued, or with Seedbed also in a worker's hands, alive or dead."""
        client = self._track.redis
        if self._peer == "scrapy_redis_storing":
            return bool(client.llen("bench:requests"))
        status = Controls(client, Keys.of("bench"), "").status()
        return not status.is_complete
