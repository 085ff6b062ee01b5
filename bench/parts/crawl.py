"""One worker crawls the same site in four ways, turn by turn: what a page costs, and how often Redis is asked."""

import sys
from dataclasses import replace
from functools import partial

from bench.crawl.fairness import FAST, HOSTS, PATIENCE_S, race
from bench.crawl.peers import TIMED
from bench.crawl.track import SITE, WARM_UP, Track
from bench.frame import Bars, Bench, Figures, Part, figures_of, ratio

_TITLES = {name: peer.title for name, peer in TIMED.items()}


def measure(bench: Bench) -> Figures:
    """Let each peer crawl the site in each round, and then hosts of which the first is slow."""
    with Track(replace(SITE, products=bench.choose(1200, 400))) as track:
        runs = bench.in_turns(bench.choose(5, 1), {peer: partial(track.crawl, peer) for peer in TIMED})
    figures = figures_of(runs) | {
        "ratio_ours_to_scrapy": ratio(runs, "pages_per_s", "ours", "scrapy"),
        "ratio_links_to_scrapy": ratio(runs, "pages_per_s", "ours_links", "scrapy"),
        "ratio_ours_to_scrapy_redis": ratio(runs, "pages_per_s", "ours", "scrapy_redis"),
        "ratio_metrics_to_none": ratio(runs, "pages_per_s", "ours_metrics", "ours"),
        "cpu_ratio_metrics_to_none": ratio(runs, "cpu_ms_per_page", "ours_metrics", "ours"),
    }
    if bench.quick:
        return figures
    if sys.platform != "linux":
        bench.notes.append("The race of fast hosts behind a slow one needs ten loopback addresses, as Linux has them.")
        return figures
    with Track(HOSTS) as track:
        races = bench.in_turns(1, {peer: partial(race, track, peer) for peer in ("scrapy", "scrapy_redis", "ours")})
    return figures | figures_of(races)


PART = Part(
    "crawl",
    "One worker, side by side",
    f"""The same spider follows all links of the same sample site (20 a page, three hosts, no delays) in one process, 16
    requests at once, and stores nothing. The peers take turns, and each round begins with another one. The first
    {WARM_UP:.0%} of the pages are a warm-up and not counted. Of scrapy-redis's queues FIFO takes the fewest commands;
    it keeps its data at the end, so deleting them is not counted. The Redis has the deployment's settings, and no other
    client. Then a race: 1,000 pages of a host that may be asked once a second are queued before ten pages of each of
    {len(FAST)} other hosts.""",
    measure,
    {
        "pages_per_s": "responses a second after the warm-up",
        "cpu_ms_per_page": "time that the worker's process worked for a page; steadier than the rate on a busy machine",
        "loop_lag_p99_ms": "how late timers of the busy event loop fired, 99 of 100 at most",
        "round_trips_per_page": "requests that Redis read (total_reads_processed, connecting included), by pages",
        "redis_cpu_ms_per_page": "time that Redis worked for a page",
        "ratio_ours_to_scrapy": "pages a second: Seedbed with an unmodified spider against plain Scrapy",
        "ratio_links_to_scrapy": "pages a second: Seedbed with a spider that yields Links against plain Scrapy",
        "ratio_metrics_to_none": "pages a second: with /metrics against without; what counting costs",
        "cpu_ratio_metrics_to_none": "the same of the worker's time for a page",
        "ratio_ours_to_scrapy_redis": "pages a second: Seedbed with an unmodified spider against scrapy-redis",
        f"fast_pages_of_90_after_{PATIENCE_S}_s": "pages of the fast hosts that were fetched by then, or sooner if all",
    },
    [
        Bars("Pages a second, one worker", "pages_per_s", _TITLES),
        Bars("CPU of the worker, milliseconds a page", "cpu_ms_per_page", _TITLES),
        Bars("Round trips to Redis, a page", "round_trips_per_page", _TITLES),
    ],
)
