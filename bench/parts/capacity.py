"""How many workers one Redis carries before its core is full, found with simulated ones; and the same for a cluster."""

import itertools
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from redis import Redis

from bench.frame import REDIS_CONF, Bench, Curve, Figure, Figures, Part
from bench.servers import EmbeddedRedis
from bench.servers.cluster import EmbeddedRedisCluster
from bench.swarm import Swarm, SwarmProcess
from crawler.frontier.keys import Keys

#: What each worker does: more than one core does with real pages to parse.
PAGES_PER_S = 100.0
LINKS_PER_PAGE = 20
WORKERS = (1, 8, 16, 32, 64, 96, 128, 192, 256)
#: Redis's core is full when it works this share of the time.
FULL = 0.9
#: The machine is at its end when the workers do less than this share of what they should.
KEPT_UP = 0.9
DAY_S = 86_400
NODES = 3


@dataclass(frozen=True)
class Load:
    """Hold what Redis and its workers did in one step."""

    pages_per_s: float
    redis_core_share: float
    exchange_p99_ms: float
    redis_cpu_us_per_page: float


def measure(bench: Bench) -> Figures:
    """Add workers until Redis's core is full, or this machine is; then spread some over a cluster."""
    seconds = bench.choose(5.0, 2.0)
    figures: Figures = {}
    loads: list[Load] = []
    with EmbeddedRedis(config_file=REDIS_CONF) as server:
        for workers in bench.steps(WORKERS, lambda workers: f"{workers} simulated workers"):
            load = _run([server], [(server.url, "bench")], workers, seconds)
            loads.append(load)
            for name in ("pages_per_s", "redis_core_share", "exchange_p99_ms"):
                figures[f"workers_{workers}.{name}"] = Figure.of([getattr(load, name)])
            if load.redis_core_share > FULL or load.pages_per_s < KEPT_UP * workers * PAGES_PER_S:
                break
    fullest = max(loads, key=lambda load: load.redis_core_share)
    if fullest.redis_core_share < FULL:
        bench.notes.append(
            f"capacity: this machine was full when Redis's core was at {fullest.redis_core_share:.0%}, with "
            f"{fullest.pages_per_s:,.0f} pages a second; what lies beyond is computed from Redis's work for a page."
        )
    with EmbeddedRedisCluster(NODES, config_file=REDIS_CONF) as cluster:
        spiders = [(cluster.url, _spider_on(cluster, node)) for node in cluster.masters]
        for workers in bench.steps([bench.choose(48, 24)], lambda workers: f"{workers} workers on {NODES} nodes"):
            load = _run(cluster.masters, spiders, workers, seconds)
    return figures | _capacity("", fullest, 1) | _capacity("cluster.", load, NODES)


def _run(servers: Sequence[EmbeddedRedis], spiders: Sequence[tuple[str, str]], workers: int, seconds: float) -> Load:
    """Let *workers*, spread over the spiders and over this machine's cores, work for *seconds*."""
    clients = [Redis.from_url(server.url) for server in servers]
    for client in clients:
        client.flushall()
    processes = max(len(spiders), min(workers, os.cpu_count() or 1))
    with ExitStack() as stack:
        swarms = []
        for number in range(processes):
            url, spider = spiders[number % len(spiders)]
            share = len(range(number, workers, processes))
            swarms.append(Swarm(redis_url=url, spider=spider, workers=share, seconds=seconds, pages_per_s=PAGES_PER_S))
        running = [stack.enter_context(SwarmProcess(swarm)) for swarm in swarms if swarm.workers]
        before_s = sum(map(_worked_s, clients))
        for process in running:
            process.go()
        outcomes = [process.outcome() for process in running]
        redis_s = sum(map(_worked_s, clients)) - before_s
    for client in clients:
        client.close()
    pages, took_s = sum(outcome.pages for outcome in outcomes), max(outcome.seconds for outcome in outcomes)
    return Load(
        pages_per_s=pages / took_s,
        redis_core_share=redis_s / took_s / len(servers),
        exchange_p99_ms=max(outcome.p99_ms for outcome in outcomes),
        redis_cpu_us_per_page=redis_s / pages * 1e6,
    )


def _worked_s(client: Any) -> float:
    """Return how long Redis's main thread has worked: the one that runs commands."""
    info = client.info("cpu")
    return float(info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"])


def _capacity(prefix: str, load: Load, servers: int) -> Figures:
    pages_per_s = servers * 1e6 / load.redis_cpu_us_per_page
    found = {
        "redis_cpu_us_per_page": load.redis_cpu_us_per_page,
        "pages_per_s": pages_per_s,
        "pages_per_day": pages_per_s * DAY_S,
        "workers": pages_per_s / PAGES_PER_S,
    }
    return {f"{prefix}{name}": Figure.of([value]) for name, value in found.items()}


def _spider_on(cluster: EmbeddedRedisCluster, node: EmbeddedRedis) -> str:
    """Return the name of a spider whose frontier lies on *node*."""
    names = (f"bench{number}" for number in itertools.count())
    return next(name for name in names if cluster.owner(Keys.of(name).meta) is node)


PART = Part(
    "capacity",
    "What one Redis carries",
    f"""Simulated workers use the real client of the frontier and download nothing: each acknowledges
    {PAGES_PER_S:.0f} pages a second, sends their {LINKS_PER_PAGE} links each, of which one is new and the others were
    seen (the local filter of a real worker keeps many of those back), and takes as many seeds, of 200 hosts
    without delays. Workers are added until the core on which Redis runs commands is full; if the machine's other cores
    are full before, the rest is computed from Redis's own work for a page. Capacity is where the core is full: plan for
    no more than two thirds of it. On the cluster of {NODES} nodes each of {NODES} spiders lives on another node.""",
    measure,
    {
        "pages_per_s": "pages a second, all workers together; without a number of workers: where Redis's core is full",
        "redis_core_share": "share of a core that Redis's main thread worked",
        "exchange_p99_ms": "time of a worker's exchange with Redis (24 pages), all but 1 in 100",
        "redis_cpu_us_per_page": "time that Redis's main thread worked for a page, microseconds",
        "pages_per_day": "pages a day where Redis's core is full",
        "workers": f"workers of {PAGES_PER_S:.0f} pages a second each where Redis's core is full",
    },
    [
        Curve("Pages a second by simulated workers", "workers", {"pages a second": "workers_{}.pages_per_s"}),
        Curve("Share of a core that Redis worked", "workers", {"Redis's core": "workers_{}.redis_core_share"}),
    ],
)
