"""Several workers share a crawl: what more of them bring on this machine, and what they run into."""

import os
from dataclasses import replace
from functools import partial

from bench.crawl.track import SITE, Pages, Track, cpu_s, redis_cpu_s
from bench.frame import Bench, Curve, Figures, Part, Run, figures_of

WORKERS = (1, 2, 4)
#: Pages of each worker that come first and are not counted.
WARM_UP_PAGES = 30
#: A core, or all of them, that works this share of the time is full.
FULL = 0.9


def measure(bench: Bench) -> Figures:
    """Let more and more workers crawl the same site."""
    numbers = bench.choose(WORKERS, WORKERS[:2])
    with Track(replace(SITE, products=bench.choose(4000, 800))) as track:
        ways = {f"workers_{number}": partial(_crawl, track, number) for number in numbers}
        runs = bench.in_turns(bench.choose(2, 1), ways)
    figures = figures_of(runs)
    for name in runs:
        bench.notes.append(f"scale: {name.replace('_', ' ')}: {_limit(figures, name)}")
    return figures


def _crawl(track: Track, number: int) -> Run:
    track.redis.flushall()
    site_before_s, redis_before = cpu_s(track.site.pid), track.redis.info("cpu")
    workers = [worker.pages for worker in track.workers("ours_links", number)]
    site_s = cpu_s(track.site.pid) - site_before_s
    redis_s = redis_cpu_s(redis_before, track.redis.info("cpu"))
    total = sum(map(len, workers))
    began_s = max(pages[min(WARM_UP_PAGES, len(pages) - 1)][0] for pages in workers)
    ended_s = min(pages[-1][0] for pages in workers)
    pages_per_s = sum(began_s < at_s <= ended_s for pages in workers for at_s, _ in pages) / (ended_s - began_s)
    return {
        "pages_per_s": pages_per_s,
        "worker_cores": sum(_cores(pages, began_s, ended_s) for pages in workers),
        # What they did for a page, at the rate of the counted time.
        "site_cores": site_s / total * pages_per_s,
        "redis_cores": redis_s / total * pages_per_s,
    }


def _cores(pages: Pages, began_s: float, ended_s: float) -> float:
    counted = [(at_s, worked_s) for at_s, worked_s in pages if began_s <= at_s <= ended_s]
    return (counted[-1][1] - counted[0][1]) / (counted[-1][0] - counted[0][0])


def _limit(figures: Figures, name: str) -> str:
    cores = os.cpu_count() or 1
    workers, site, redis = (figures[f"{name}.{who}_cores"].value for who in ("worker", "site", "redis"))
    busy = f"workers {workers:.2f}, site {site:.2f}, Redis {redis:.2f} of {cores} cores"
    if redis > FULL:
        return f"Redis's core is full ({busy})"
    if site > FULL:
        return f"the sample site's core is full ({busy})"
    if workers > FULL * int(name.rpartition("_")[2]):
        return f"each worker's core is full ({busy})"
    if workers + site + redis > FULL * cores:
        return f"the machine's cores are full ({busy})"
    return f"nothing of the crawl's is full ({busy}): something else kept the machine busy, or the workers waited"


PART = Part(
    "scale",
    "Several workers, one crawl",
    """Workers with Links share a crawl of the sample site, each in a process of its own, on one machine with the site
    and Redis. Counted is the time in which all of them work: from when each has had its first pages until the first of
    them has its last one. A worker has one core at most; on a machine of its own it would have it for itself.""",
    measure,
    {
        "pages_per_s": "responses a second, all workers together",
        "worker_cores": "cores that all workers together kept busy",
        "site_cores": "cores that the sample site kept busy",
        "redis_cores": "cores that Redis kept busy",
    },
    [
        Curve("Pages a second by workers", "workers", {"pages a second": "workers_{}.pages_per_s"}),
        Curve(
            "Busy cores by workers",
            "workers",
            {
                "workers": "workers_{}.worker_cores",
                "sample site": "workers_{}.site_cores",
                "Redis": "workers_{}.redis_cores",
            },
        ),
    ],
)
