"""How many documents a second become durable in MongoDB, in the usual ways and through the storage; and what the
storage costs a crawl.
"""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pymongo import MongoClient

from bench import storage_path
from bench.crawl.track import SITE, Track
from bench.frame import Bars, Bench, Figure, Figures, Part, Run, figures_of, ratio
from bench.servers import EmbeddedMongo, find_mongo
from bench.servers.slow_line import SlowLine

_WAYS = {
    "insert_one": storage_path.ONE,
    "bulk": storage_path.BULK,
    "bulk_once": storage_path.BULK_ONCE,
    "ours": storage_path.OURS,
    "bulk_pages": storage_path.BULK_PAGES,
    "ours_pages": storage_path.OUR_PAGES,
}

_TITLES = {
    "insert_one": "insert_one",
    "bulk": "bulk_write",
    "bulk_once": "bulk_write, no retries",
    "ours": "Seedbed, items",
    "bulk_pages": "bulk_write, pages",
    "ours_pages": "Seedbed, pages",
}


#: A crawl that leaves the event loop time: so long between two pages of each of the three hosts, and so many pages.
CALM_DELAY_S, CALM_PAGES = 0.05, 300
#: How much later a distant MongoDB answers, seconds.
FAR_S = 0.2
_CRAWLS = {
    "crawl_without": "without the storage",
    "crawl_with": "with it",
    "crawl_with_far": f"MongoDB answers {FAR_S * 1000:.0f} ms late",
}
_DATABASE = "bench_crawl"


def measure(bench: Bench) -> Figures:
    """Store the same documents in each way in each round; then crawl without the storage and with it."""
    program = find_mongo()
    documents, rounds = bench.choose(40_000, 5_000), bench.choose(9, 1)
    with ExitStack() as stack:
        replica_set = "rs0" if program.is_mongod else None
        server = stack.enter_context(EmbeddedMongo(program, replica_set=replica_set))
        for _ in bench.steps([f"{rounds} rounds of {len(_WAYS)} ways"]):
            rates = asyncio.run(storage_path.measure(server.url, documents, rounds))
        crawls, calm = _crawls(bench, server)
    bench.notes.append(f"storage: {program}.")
    figures = {f"{name}.docs_per_s": Figure.of(rates[way]) for name, way in _WAYS.items()}
    ones, bulks, ours = (rates[_WAYS[name]] for name in ("insert_one", "bulk", "ours"))
    return (
        figures
        | figures_of(crawls)
        | figures_of(calm)
        | {
            "ratio_crawl_with_to_without": ratio(crawls, "pages_per_s", "crawl_with", "crawl_without"),
            "ratio_crawl_far_to_without": ratio(crawls, "pages_per_s", "crawl_with_far", "crawl_without"),
            "ratio_ours_to_insert_one": Figure.of(a / b for a, b in zip(ours, ones, strict=True)),
            "ratio_ours_to_bulk": Figure.of(a / b for a, b in zip(ours, bulks, strict=True)),
        }
    )


def _crawls(bench: Bench, server: EmbeddedMongo) -> tuple[dict[str, list[Run]], dict[str, list[Run]]]:
    """Let one worker crawl pages of 20 KB, without the storage, with it, and with a MongoDB that is far away.

    Return the runs as fast as can be, and those at a calm pace.
    """
    site = replace(SITE, products=bench.choose(2000, 300), page_bytes=storage_path.PAGE_BYTES)
    with ExitStack() as stack:
        track = stack.enter_context(Track(site))
        line = stack.enter_context(SlowLine(server.port, FAR_S / 2))
        client: MongoClient[dict[str, object]] = stack.enter_context(MongoClient(server.url))

        def crawl(uri: str, **settings: Any) -> Run:
            client.drop_database(_DATABASE)
            if not uri:
                return track.crawl("ours", **settings)
            return track.crawl("ours_stored", MONGO_URI=uri, MONGO_DATABASE=_DATABASE, **settings)

        def crawl_calmly(uri: str) -> Run:
            pages = bench.choose(CALM_PAGES, CALM_PAGES // 4)
            run = crawl(uri, DOWNLOAD_DELAY=CALM_DELAY_S, FRONTIER_MAX_PAGES=pages)
            return {"calm_loop_lag_p99_ms": run["loop_lag_p99_ms"]}

        # A member of a replica set would tell where it is, and the client go there straight away.
        far = f"mongodb://127.0.0.1:{line.port}/?directConnection=true"
        ways = {"crawl_without": "", "crawl_with": server.url, "crawl_with_far": far}
        fast, calm = ({name: partial(run, uri) for name, uri in ways.items()} for run in (crawl, crawl_calmly))
        return bench.in_turns(bench.choose(5, 1), fast), bench.in_turns(bench.choose(2, 1), calm)


PART = Part(
    "storage",
    "Documents into MongoDB",
    f"""The same documents go to the same server, turn by turn, each time into an empty collection, acknowledged by a
    majority and the journal: one at a time, by bulk_write of {storage_path.BATCH_DOCS}, and through the storage, which
    begins with items, not with documents that are ready to be sent. Pages of {storage_path.PAGE_BYTES // 1000} KB
    likewise; the storage compresses them, and its peer is given what came out of that. Then one worker crawls a site
    whose pages have {storage_path.PAGE_BYTES // 1000} KB: without the storage, with it, and with a line to MongoDB that
    takes {FAR_S / 2 * 1000:.0f} ms each way, each as fast as it can and at a pace that leaves its event loop time.""",
    measure,
    {
        "docs_per_s": "documents a second that are durable",
        "ratio_ours_to_insert_one": "the storage against insert_one, items",
        "ratio_ours_to_bulk": "the storage against bulk_write, items",
        "pages_per_s": "responses a second after the warm-up",
        "cpu_ms_per_page": "time that the worker's process worked for a page",
        "loop_lag_p99_ms": "how late timers of the busy event loop fired, 99 of 100 at most",
        "calm_loop_lag_p99_ms": f"the same at a page every {CALM_DELAY_S * 1000:.0f} ms of each of three hosts",
        "round_trips_per_page": "requests that Redis read (total_reads_processed, connecting included), by pages",
        "redis_cpu_ms_per_page": "time that Redis worked for a page",
        "ratio_crawl_with_to_without": "pages a second: with the storage against without",
        "ratio_crawl_far_to_without": "pages a second: with a distant MongoDB against without the storage",
    },
    [
        Bars("Documents a second, durable", "docs_per_s", _TITLES),
        Bars("Pages a second, one worker", "pages_per_s", _CRAWLS),
    ],
)
