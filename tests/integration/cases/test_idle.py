"""Workers without work: they wait for each other, ask seldom, and end together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from redis import Redis

from bench.demo.worker import WorkerProcess
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.frontier.verbs import verb
from tests.integration.cases.pages import PATIENCE_S, Arrival, Pages

Start = Callable[..., WorkerProcess]
Eventually = Callable[..., None]
Ended = Callable[..., None]


def workers_of(client: Redis, spider: str) -> dict[str, tuple[int, int]]:
    return Controls(client, Keys.of(spider), "the tests' Redis").status().workers


def calls(client: Redis) -> int:
    stats = client.info("commandstats")
    return sum(stats[name]["calls"] for name in stats if name.startswith("cmdstat_eval"))


def test_idle_workers_wait_for_the_one_that_may_find_more(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Cases I1, I2, L10, M1: three wait while one has a slow page; all share its links; all end by themselves."""
    pages.links = {"/slow": [f"/page{n}" for n in range(500)]}
    slow, all_at_work = threading.Event(), threading.Barrier(4)
    first = {f"worker-{n}": threading.Lock() for n in range(1, 5)}

    def hold(page: Arrival) -> None:
        if page.path == "/slow":
            slow.wait(PATIENCE_S)
        elif first[page.worker].acquire(blocking=False):  # the first page of each worker waits for those of the others
            all_at_work.wait(60)

    pages.hold = hold
    client.rpush("follow:start_urls", f"{pages.origin}/slow")
    workers = [worker("follow", FRONTIER_POLL_S="0.2") for _ in range(4)]
    eventually(lambda: len(workers_of(client, "follow")) == 4 and pages.paths == ["/slow"], 60)
    so_far = calls(client)
    eventually(lambda: calls(client) > so_far + 60, 60)  # they have looked for work time and again
    assert [process.exit_code for process in workers] == [None] * 4

    slow.set()
    ended(*workers)
    assert len(pages.answered) == 501
    assert set(pages.answered.values()) == {1}
    crawled = pages.by_worker()
    assert min(crawled[process.name] for process in workers) >= 10
    assert {process.name: process.stat("downloader/response_count") for process in workers} == crawled


def test_idle_workers_seldom_ask(worker: Start, eventually: Eventually, client: Redis) -> None:
    """Case I7: while each of four idle workers says once a second that it lives, it asks for work a few times."""
    for _ in range(4):
        worker("follow", CLOSE_WHEN_COMPLETE="false")
    eventually(lambda: len(workers_of(client, "follow")) == 4, 60)
    beat = verb("extend").sha
    beats: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    with client.monitor() as monitor:  # type: ignore[no-untyped-call]
        for command in monitor.listen():
            if command["client_type"] == "lua":
                continue
            words, address = command["command"].split(), f"{command['client_address']}:{command['client_port']}"
            if beat in words:
                beats[address] += 1
            elif all(count >= 2 for count in beats.values()) and len(beats) == 4:  # the waits have grown by then
                asked[words[0].upper()] += 1
            if len(beats) == 4 and min(beats.values()) >= 5:
                break
    assert 4 <= asked.total() < 4 * 4 * 6, asked
