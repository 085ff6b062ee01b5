"""What one client gets through the frontier in a second, how long one page's links take, and what idling costs."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from redis import Redis

from bench.contest import LINKS_PER_PAGE, Contest, opened, steady_costs
from bench.frame import REDIS_CONF, ROOT, Bars, Bench, Figures, Part, Run, figures_of, ratio
from bench.servers import EmbeddedRedis
from bench.swarm import Swarm, SwarmProcess, new_link, percentile
from crawler.frontier.keys import Keys

#: Other workers that keep Redis busy while the time of a push is taken, and what each does.
LOAD = {"workers": 10, "pages_per_s": 50.0}
#: Between two pages whose links are pushed, seconds.
PAUSE_S = 0.005

IDLE_WORKERS = 50
IDLE_START_S = 120.0

_PEERS = {
    "scrapy_redis": "scrapy-redis",
    "ours_requests": "Seedbed, from Requests",
    "ours_links": "Seedbed, from Links",
}


def measure(bench: Bench) -> Figures:
    """Measure throughput, then latency, then what a page costs, and idleness."""
    with EmbeddedRedis(config_file=REDIS_CONF) as server, Redis.from_url(server.url) as client:
        figures = _throughput(bench, Contest(server.url, client, bench.choose(40_000, 16_000)))
        client.flushall()
        pages = bench.choose(2000, 600)
        figures |= figures_of(bench.in_turns(bench.choose(3, 1), {"ours": partial(push_times, server.url, pages)}))
        once: dict[str, Callable[[], Run]] = {
            "ours": lambda: asyncio.run(steady_costs(server.url, client)),
        }
        if not bench.quick:
            once[f"idle_workers_{IDLE_WORKERS}"] = partial(idle_calls, server.url, client, 15)
        return figures | figures_of(bench.in_turns(1, once))


def _throughput(bench: Bench, contest: Contest) -> Figures:
    runs = bench.in_turns(bench.choose(5, 1), {name: getattr(contest, name) for name in _PEERS})
    # What was pushed comes out in the same way, however it went in.
    figures = {
        name.replace("ours_requests", "ours") if not name.endswith("push_per_s") else name: figure
        for name, figure in figures_of(runs).items()
        if name.endswith("push_per_s") or not name.startswith("ours_links")
    }
    return figures | {
        "ratio_requests_to_scrapy_redis": ratio(runs, "push_per_s", "ours_requests", "scrapy_redis"),
        "ratio_links_to_scrapy_redis": ratio(runs, "push_per_s", "ours_links", "scrapy_redis"),
    }


def push_times(redis_url: str, pages: int) -> Run:
    """Push the links of *pages* pages, one page at a time, while other workers keep Redis busy.

    The times are the client's own, from its call to Redis's answer; nothing else runs on its event loop.
    """
    load = Swarm(redis_url=redis_url, spider="others", seconds=3600, **LOAD)  # type: ignore[arg-type]
    with SwarmProcess(load) as others:
        others.go()
        push_ms, ping_ms = asyncio.run(_push(redis_url, pages))
    return {
        "push_p50_ms": percentile(push_ms, 50),
        "push_p99_ms": percentile(push_ms, 99),
        "ping_p99_ms": percentile(ping_ms, 99),
    }


async def _push(redis_url: str, pages: int) -> tuple[list[float], list[float]]:
    push_ms: list[float] = []
    ping_ms: list[float] = []
    async with opened(redis_url, "bench") as frontier:
        frontier.line.on_call = lambda what, took_s: push_ms.append(1000 * took_s) if what == "exchange" else None
        for _ in range(pages):
            await frontier.exchange([new_link() for _ in range(LINKS_PER_PAGE)])
            begin_s = perf_counter()
            await frontier.line.clients(frontier.keys.meta).ping()
            ping_ms.append(1000 * (perf_counter() - begin_s))
            await asyncio.sleep(PAUSE_S)
    return sorted(push_ms), sorted(ping_ms)


def idle_calls(redis_url: str, client: Any, seconds: float) -> Run:
    """Start workers that have nothing to do, and count what they ask of Redis."""
    command = [sys.executable, "-m", "bench.crawl.idle", str(IDLE_WORKERS), redis_url]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        deadline_s = time.monotonic() + IDLE_START_S
        while client.zcard(Keys.of("bench").workers) < IDLE_WORKERS:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"{IDLE_WORKERS} idle workers could not be started within {IDLE_START_S:.0f} s")
            time.sleep(0.1)
        time.sleep(3)  # until each has found out that there is nothing to do
        before, began_s = client.info("stats"), time.monotonic()
        time.sleep(seconds)
        after, took_s = client.info("stats"), time.monotonic() - began_s
    finally:
        process.terminate()
        process.wait()
    return {"calls_per_s": (after["total_reads_processed"] - before["total_reads_processed"] - 1) / took_s}


PART = Part(
    "frontier",
    "One client of the frontier",
    f"""One process pushes the same new links into an empty Redis and takes them out again. A push begins with Scrapy's
    objects (fingerprint, encode, filter, enqueue); a pop ends with a Request. scrapy-redis has RFPDupeFilter and its
    FifoQueue, and sends a link at a time, as its scheduler does. The time of a push is that of one page's
    {LINKS_PER_PAGE} links, from the call to Redis's answer, off any crawler's event loop, while {LOAD["workers"]}
    simulated workers in another process do {LOAD["pages_per_s"]:.0f} pages a second each. Idle are {IDLE_WORKERS} real
    workers without work.""",
    measure,
    {
        "push_per_s": "links a second, from Request or Links objects to the frontier",
        "pop_per_s": "seeds a second, from the frontier to Request objects",
        "complete_per_s": "acknowledgements a second",
        "push_p50_ms": "time that a push of one page's links takes, median",
        "push_p99_ms": "the same, all but 1 in 100",
        "ping_p99_ms": "time of a PING between them, all but 1 in 100: what the line and the machine add to anything",
        "commands_per_page": "commands that Redis runs for a page of a busy worker, those inside of scripts included",
        "request_bytes_per_page": "bytes that a busy worker sends to Redis for a page with its links",
        "calls_per_s": f"requests that Redis read a second, of all {IDLE_WORKERS} idle workers together",
        "ratio_requests_to_scrapy_redis": "links pushed a second, from Requests, against scrapy-redis",
        "ratio_links_to_scrapy_redis": "the same from Links",
    },
    [Bars("Links pushed a second, one client", "push_per_s", _PEERS)],
)
