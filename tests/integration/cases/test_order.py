"""In which order pages are asked for, measured where they arrive: by priority, age, depth and host, and by worker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from redis import Redis

from bench.demo.worker import WorkerProcess
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from tests.integration.cases.pages import PATIENCE_S, Pages

Start = Callable[..., WorkerProcess]
Eventually = Callable[..., None]
Ended = Callable[..., None]


def test_equal_priorities_keep_their_order_and_higher_ones_overtake(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Cases O2, K6: what is urgent overtakes what is queued already, though not what a worker has taken ahead."""
    names = [10, 9, 8, 1, 2, 3, *range(11, 65)]
    pages.hold = lambda page: pages.wait_for_budget(page) if page.path == "/10" else None
    client.rpush("low", *(f"{pages.origin}/{n}" for n in names))
    process = worker("follow", CONCURRENT_REQUESTS="1", START_URLS_KEY="high, low")
    eventually(lambda: pages.paths == ["/10"], 60)
    controls = Controls(client, Keys.of("follow"), "the tests' Redis")
    # One after the other, as the worker may take the first one ahead.
    client.rpush("low", json.dumps({"url": f"{pages.origin}/very-urgent", "priority": 9}))
    eventually(lambda: controls.status().accepted == len(names) + 1, 60)
    client.zadd("high", {f"{pages.origin}/urgent{n}": n for n in range(1, 4)})
    eventually(lambda: controls.status().accepted == len(names) + 4, 60)
    pages.allow(1)
    ended(process)
    low = [path for path in pages.paths if "urgent" not in path]
    assert low == [f"/{n}" for n in names]
    urgent = [path for path in pages.paths if "urgent" in path]
    assert urgent == ["/very-urgent", "/urgent3", "/urgent2", "/urgent1"]
    ahead = 4 * 4  # FRONTIER_PREFETCH: what a worker takes ahead at the least
    assert pages.paths.index("/urgent1") <= 1 + ahead + ahead // 2 + len(urgent)


@pytest.mark.parametrize("depth_priority", ["1", "-1"], ids=["breadth", "depth"])
def test_breadth_or_depth_first(pages: Pages, worker: Start, ended: Ended, client: Redis, depth_priority: str) -> None:
    """Case O1: DEPTH_PRIORITY chooses; depth first, leaves come long before the last branch is begun."""
    pages.links = {"/": [f"/1/{n}" for n in range(40)]}
    pages.links |= {f"/{depth}/{n}": [f"/{depth + 1}/{n}"] for depth in (1, 2) for n in range(40)}
    client.rpush("follow:start_urls", f"{pages.origin}/")
    own = {"CONCURRENT_REQUESTS": "1", "FRONTIER_FLUSH_S": "0.01"}
    ended(worker("follow", "-s", f"DEPTH_PRIORITY={depth_priority}", **own))
    depths = [path[1] for path in pages.paths[1:]]
    assert len(depths) == 120
    if depth_priority == "1":
        assert depths == sorted(depths)
    else:
        assert depths.index("3") < 60
        assert depths[:60].count("1") < 35


def test_a_slow_host_holds_up_no_other(pages: Pages, worker: Start, eventually: Eventually, client: Redis) -> None:
    """Case O5: 1000 pages of a host with a delay of a second, then ten of each of nine others: these are through."""
    others = {f"/{host}-{n}" for host in range(9) for n in range(10)}
    controls = Controls(client, Keys.of("follow"), "the tests' Redis")
    controls.set_delay("slow.example", 1000)
    client.rpush("follow:start_urls", *(f"http://slow.example/slow{n}" for n in range(1000)))
    client.rpush("follow:start_urls", *(f"http://host{path[1]}.example{path}" for path in sorted(others)))
    worker("follow", http_proxy=pages.origin)
    eventually(lambda: others <= set(pages.paths), 90)
    slow = [path for path in pages.paths if path.startswith("/slow")]
    assert 1 <= len(slow) < 90
    assert slow == [f"/slow{n}" for n in range(len(slow))]


def test_few_seeds_are_shared_evenly_by_small_hands(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Case O8: CONCURRENT_REQUESTS and FRONTIER_PREFETCH say how much a worker takes; small ones share few seeds."""
    shared = threading.Event()
    pages.hold = lambda _: shared.wait(PATIENCE_S)
    own = {"CONCURRENT_REQUESTS": "3", "FRONTIER_PREFETCH": "1", "CLOSE_WHEN_COMPLETE": "false"}
    controls = Controls(client, Keys.of("follow"), "the tests' Redis")
    for _ in range(4):
        worker("follow", **own)
    eventually(lambda: len(controls.status().workers) == 4, 60)
    client.rpush("follow:start_urls", *pages.urls(f"/{n}" for n in range(20)))
    eventually(lambda: len(pages.arrivals) == 12, 60)
    held = [leases for _, leases in controls.status().workers.values()]
    assert min(held) >= 3
    assert max(held) <= 4
    shared.set()
    eventually(lambda: pages.answered.total() == 20, 60)
