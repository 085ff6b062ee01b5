"""How long a scrape of the exporter takes, as the spiders and their seeds grow."""

import asyncio
from contextlib import ExitStack
from time import perf_counter

from bench.contest import BATCH, opened
from bench.frame import REDIS_CONF, Bench, Curve, Figure, Figures, Part
from bench.servers import EmbeddedMongo, EmbeddedRedis
from bench.swarm import new_link
from crawler.config import Config
from exporter.__main__ import exporting
from exporter.scrape import Exporter

SPIDERS = (1, 10, 100)
SEEDS = (10_000, 100_000, 1_000_000)
#: Of each of many spiders.
FEW_SEEDS = 200
SCRAPES = 7


def measure(bench: Bench) -> Figures:
    """Scrape with more and more spiders, then with more and more seeds of one of them."""
    figures: Figures = {}
    spiders, seeds = bench.choose(SPIDERS, SPIDERS[:2]), bench.choose(SEEDS, SEEDS[:2])
    with ExitStack() as stack:
        redis = stack.enter_context(EmbeddedRedis(config_file=REDIS_CONF, options={"appendonly": "no"}))
        mongo = stack.enter_context(EmbeddedMongo())
        exporter = stack.enter_context(exporting(Config(redis_url=redis.url, mongo_uri=mongo.url)))
        there = 0
        for number in bench.steps(spiders, lambda number: f"{number} spiders"):
            for spider in range(there, number):
                asyncio.run(_queue(redis.url, f"bench{spider}", FEW_SEEDS))
            there = number
            figures[f"spiders_{number}.scrape_s"] = _scrape(exporter)
        queued = FEW_SEEDS
        for number in bench.steps(seeds, lambda number: f"{number:,} seeds"):
            asyncio.run(_queue(redis.url, "bench0", number - queued))
            queued = number
            figures[f"seeds_{number}.scrape_s"] = _scrape(exporter)
        if exporter.failures:
            bench.notes.append(f"exporter: it could not read all: {exporter.failures}")
    return figures | {"scrape_s": figures[f"seeds_{seeds[-1]}.scrape_s"]}


async def _queue(redis_url: str, spider: str, seeds: int) -> None:
    async with opened(redis_url, spider) as frontier:
        for first in range(0, seeds, BATCH):
            await frontier.exchange([new_link() for _ in range(first, min(first + BATCH, seeds))])


def _scrape(exporter: Exporter) -> Figure:
    took_s = []
    for _ in range(SCRAPES):
        begin_s = perf_counter()
        exporter.metrics()
        took_s.append(perf_counter() - begin_s)
    return Figure.of(took_s)


PART = Part(
    "exporter",
    "A scrape of the exporter",
    f"""The exporter is scraped {SCRAPES} times in a row in its own process, on a Redis and a MongoDB beside it: with
    more and more spiders of {FEW_SEEDS} queued seeds each; then one of them gets more and more. The first scrapes of a
    minute also sample what keys weigh, which the highest times show.""",
    measure,
    {"scrape_s": "seconds that a scrape takes; the one that stands alone: with the most spiders and the most seeds"},
    [
        Curve("Seconds a scrape, by spiders", "spiders", {"scrape": "spiders_{}.scrape_s"}),
        Curve("Seconds a scrape, by seeds of one spider", "queued seeds", {"scrape": "seeds_{}.scrape_s"}),
    ],
)
