"""Whichever worker dies or is stopped in the middle of a crawl, each request is crawled; slow ones hold up nobody."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from redis import Redis

from bench.demo.worker import WorkerProcess
from bench.servers import EmbeddedRedis
from bench.servers.slow_line import SlowLine
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.frontier.status import Status
from tests.integration.cases.pages import PATIENCE_S, Pages

Start = Callable[..., WorkerProcess]
Eventually = Callable[..., None]
Ended = Callable[..., None]


def status_of(client: Redis, spider: str) -> Status:
    return Controls(client, Keys.of(spider), "the tests' Redis").status()


def test_a_thousand_equal_requests_over_a_long_line(
    pages: Pages, worker: Start, ended: Ended, client: Redis, redis_server: EmbeddedRedis
) -> None:
    """Cases L6, L11, R6, R8: each is one page, and together they take few round trips to a Redis that is 50 ms away."""
    client.rpush("again:start_urls", f"{pages.origin}/")
    with SlowLine(redis_server.port, 0.025) as line:
        ended(worker("again", REDIS_URL=f"redis://127.0.0.1:{line.port}/0", FRONTIER_LEASE_S="30"))
        round_trips = line.sent
    assert pages.answered == {"/": 1, "/same": 1000}
    status = status_of(client, "again")
    assert (status.accepted, status.done, status.dead, status.unbalanced) == (1001, 1001, 0, 0)
    assert round_trips < 1001 / 4


def test_pages_without_an_answer_hold_up_nobody(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Cases L9, I8: while some pages wait for ever, both workers crawl all the others, as they come in."""
    late = threading.Event()
    pages.hold = lambda page: late.wait(PATIENCE_S) if page.path.startswith("/late") else None
    client.rpush("follow:start_urls", *pages.urls(f"/late{n}" for n in range(4)))
    workers = [worker("follow") for _ in range(2)]
    eventually(lambda: len(status_of(client, "follow").workers) == 2 and len(pages.arrivals) == 4, 60)
    for n in range(600):
        client.rpush("follow:start_urls", f"{pages.origin}/page{n}")
    eventually(lambda: pages.answered.total() == 600, 120)
    assert not any(path.startswith("/late") for path in pages.answered)
    assert min(pages.by_worker()[f"worker-{n}"] for n in (1, 2)) > 50
    late.set()
    ended(*workers)
    assert set(pages.answered.values()) == {1}
    assert len(pages.answered) == 604


def test_workers_that_are_replaced_one_after_another(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Case L12: of two workers under load, the older is stopped or killed and a new one started, round after round."""
    pages.links = {"/": [f"/list{n}" for n in range(20)]}
    pages.links |= {f"/list{n}": [f"/page{n}-{m}" for m in range(20)] for n in range(20)}
    pages.hold = pages.wait_for_budget
    client.rpush("follow:start_urls", f"{pages.origin}/")
    running = [worker("follow"), worker("follow")]
    pages.allow(21)
    for round_ in range(4):
        eventually(lambda: all(pages.by_worker()[process.name] for process in running), 60)
        oldest = running.pop(0)
        if round_ % 2:
            oldest.kill()
        else:
            stop(oldest, pages, eventually)
        running.append(worker("follow"))
        pages.allow(50)
    pages.allow(10_000)
    ended(*running)
    assert set(pages.answered) == {"/", *(page for found in pages.links.values() for page in found)}
    status = status_of(client, "follow")
    assert (status.accepted, status.done, status.unbalanced) == (421, 421, 0)
    assert status.workers_lost == 2


def test_what_was_left_and_what_is_new_are_both_crawled(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Cases L17, I6: what a stopped worker left in the queue goes first, and then what a producer wrote meanwhile.

    What was seen outlives the stop, and not the end of the crawl.
    """
    left = [f"/left{n}" for n in range(10)]
    pages.links = {"/": left, "/left9": ["/left0", "/left1"]}
    pages.hold = lambda page: pages.wait_for_budget(page) if page.path == "/left0" else None
    client.rpush("follow:start_urls", f"{pages.origin}/")
    first = worker("follow", CONCURRENT_REQUESTS="1")
    eventually(lambda: "/left0" in pages.paths, 60)
    stop(first, pages, eventually)
    pages.arrivals.clear()
    client.rpush("follow:start_urls", f"{pages.origin}/new")
    ended(worker("follow", CONCURRENT_REQUESTS="1"))
    assert pages.paths == [*left[1:], "/new"]

    pages.arrivals.clear()
    pages.allow(1)
    client.rpush("follow:start_urls", f"{pages.origin}/")
    ended(worker("follow"))
    assert sorted(pages.paths) == sorted(["/", *left])


def stop(process: WorkerProcess, pages: Pages, eventually: Eventually) -> None:
    """Stop a worker cleanly; the pages that it waits for come when it knows that it is to stop, not before."""
    os.kill(process.pid, signal.SIGTERM)
    eventually(lambda: "SIGTERM" in process.log.read_text(), 60)
    pages.release(process.name)
    eventually(lambda: process.exit_code is not None, 60)
    assert process.exit_code == 0, process.complaints(60)
