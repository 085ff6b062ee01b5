"""How long a scrape of the exporter takes, as the spiders and their seeds grow."""

import asyncio
from contextlib import ExitStack
from time import perf_counter, process_time
from typing import Any

from redis import Redis

from bench.contest import BATCH, opened
from bench.frame import REDIS_CONF, Bench, Curve, Figure, Figures, Part
from bench.servers import EmbeddedMongo, EmbeddedRedis
from bench.swarm import new_link
from crawler.config import Config
from crawler.frontier.keys import SPIDERS, Keys
from exporter.__main__ import exporting
from exporter.scrape import Exporter

NUMBERS = (1, 10, 100, 1000)
SEEDS = (10_000, 100_000, 1_000_000)
#: Of each of many spiders; and of each of the most.
FEW_SEEDS, MANY_SEEDS = 200, 10_000
SCRAPES = 7
#: So small that a thousand filters fit.
CAPACITY = 20_000


def measure(bench: Bench) -> Figures:
    """Scrape with more and more spiders, then with more and more seeds of one of them, then with much of both."""
    figures: Figures = {}
    spiders, seeds = bench.choose(NUMBERS, NUMBERS[:2]), bench.choose(SEEDS, SEEDS[:2])
    with ExitStack() as stack:
        redis = stack.enter_context(EmbeddedRedis(config_file=REDIS_CONF, options={"appendonly": "no"}))
        client = stack.enter_context(Redis.from_url(redis.url))
        mongo = stack.enter_context(EmbeddedMongo())
        exporter = stack.enter_context(exporting(Config(redis_url=redis.url, mongo_uri=mongo.url)))
        asyncio.run(_queue(redis.url, "bench0", FEW_SEEDS))
        for number in bench.steps(spiders, lambda number: f"{number} spiders"):
            _copy(client, number)
            figures |= _scrape(exporter, f"spiders_{number}.")
        queued = FEW_SEEDS
        for number in bench.steps(seeds, lambda number: f"{number:,} seeds"):
            asyncio.run(_queue(redis.url, "bench0", number - queued))
            queued = number
            figures |= _scrape(exporter, f"seeds_{number}.")
        client.flushall()
        asyncio.run(_queue(redis.url, "bench0", MANY_SEEDS))
        _copy(client, spiders[-1])
        figures |= _scrape(exporter)
        if exporter.failures:
            bench.notes.append(f"exporter: it could not read all: {exporter.failures}")
    return figures


async def _queue(redis_url: str, spider: str, seeds: int) -> None:
    async with opened(redis_url, spider, dedup_capacity=CAPACITY) as frontier:
        for first in range(0, seeds, BATCH):
            await frontier.exchange([new_link() for _ in range(first, min(first + BATCH, seeds))])


def _copy(client: Any, spiders: int) -> None:
    """Give that many spiders the frontier that the first one has."""
    first = Keys("bench0")
    whole = {key.decode().removeprefix(first.base): client.dump(key) for key in client.scan_iter(match=first("*"))}
    for number in range(1, spiders):
        keys = Keys(f"bench{number}")
        pipeline = client.pipeline(transaction=False)
        pipeline.sadd(SPIDERS, keys.tag)
        for part, dump in whole.items():
            pipeline.restore(keys(part), 0, dump, replace=True)
        pipeline.execute()


def _scrape(exporter: Exporter, of: str = "") -> Figures:
    took_s, worked_s = [], []
    for _ in range(SCRAPES):
        begin_s, had_worked_s = perf_counter(), process_time()
        exporter.metrics()
        took_s.append(perf_counter() - begin_s)
        worked_s.append(process_time() - had_worked_s)
    return {f"{of}scrape_s": Figure.of(took_s), f"{of}cpu_s": Figure.of(worked_s)}


PART = Part(
    "exporter",
    "A scrape of the exporter",
    f"""The exporter is scraped {SCRAPES} times in a row in its own process, on a Redis and a MongoDB beside it: with
    more and more spiders of {FEW_SEEDS} queued seeds each; then one of them gets more and more; at last all have
    {MANY_SEEDS:,}. The first scrapes of a minute also sample what keys weigh, which the highest times show.""",
    measure,
    {
        "scrape_s": "seconds that a scrape takes; the one that stands alone: 1,000 spiders and 10 million seeds",
        "cpu_s": "seconds that the exporter itself works for it; steadier on a busy machine",
    },
    [
        Curve("Seconds a scrape, by spiders", "spiders", {"scrape": "spiders_{}.scrape_s"}),
        Curve("Seconds a scrape, by seeds of one spider", "queued seeds", {"scrape": "seeds_{}.scrape_s"}),
    ],
)
