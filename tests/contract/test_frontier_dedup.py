"""What is queued once, and what each time: links, start requests, unfiltered requests, children."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from crawler.errors import FrontierError
from crawler.frontier.controls import Controls
from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import START, UNFILTERED, Ack, Link
from tests.fleet import Fleet, MakeFleet, link, links, seed

pytestmark = pytest.mark.every_redis


async def test_two_workers_that_find_the_same_links_queue_each_once_d9(fleet: Fleet) -> None:
    workers = [await fleet.opened() for _ in range(2)]
    shuffled = random.Random(5)
    found = [link(f"http://h/{n}") for n in range(1000)]

    async def push_all(worker: Frontier) -> int:
        mine = shuffled.sample(found, len(found))
        return sum([(await worker.exchange(mine[first : first + 100])).accepted for first in range(0, 1000, 100)])

    assert sum(await asyncio.gather(*map(push_all, workers))) == 1000
    assert fleet.audit() == Counter(found.seed for found in found)
    assert fleet.status().filtered == 1000


async def test_start_requests_are_admitted_once_a_crawl(fleet: Fleet) -> None:
    first, second = await fleet.opened(), await fleet.opened()
    start = link("http://h/", kind=START)
    assert (await fleet.push(first, [start, start])).accepted == 1
    assert (await fleet.push(second, [start])).filtered == 1
    # It is known as seen: no link leads there again.
    assert (await fleet.push(second, links("h/"))).filtered == 1
    # And the other way round: what was seen as a link is still a start request, once.
    await fleet.push(first, links("h/deep"))
    assert (await fleet.push(first, [link("http://h/deep", kind=START)])).accepted == 1


async def test_the_same_unfiltered_request_twice_is_two_seeds_l6(fleet: Fleet) -> None:
    worker = await fleet.opened()
    same = Link(0, b"", UNFILTERED, seed("http://h/same"))
    for first in range(0, 1000, 250):
        assert (await fleet.push(worker, [same] * 250)).accepted == 250
        assert first + 250 == fleet.status().queued
    assert len((await fleet.pop(worker, 2000, per_host=2000)).leases) == 1000


async def test_children_go_in_with_the_acknowledgement(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/page", priority=3))
    (lease,) = (await fleet.pop(worker)).leases
    children = [(7, seed("http://h/retry")), (-2, seed("http://h/retry"))]
    answer = await worker.exchange(acks=[Ack(lease.token, "", children)])
    assert (answer.done, answer.stale) == (1, 0)
    assert fleet.audit() == Counter({seed("http://h/retry"): 2})
    assert fleet.status().accepted == 3
    assert [lease.priority for lease in (await fleet.pop(worker)).leases] == [7, -2]


# -- what is forgotten


async def test_d10_what_was_seen_is_forgotten_in_time_and_all_workers_are_told(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(ttl_ms=40)
    worker = await fleet.opened()
    before = (await fleet.pop(worker)).generation
    await fleet.push(worker, links("h/a"))
    while (await fleet.push(worker, links("h/a"))).filtered:
        pass
    assert (await fleet.pop(worker, 1)).generation > before
    assert fleet.status().accepted == 2


async def test_within_its_time_what_was_seen_outlives_the_crawl_but_start_requests_are_admitted_in_each(
    make_fleet: MakeFleet,
) -> None:
    fleet = make_fleet(ttl_ms=10**12, keep_seen=True)
    worker = await fleet.opened()
    start = link("http://h/", kind=START)
    for crawl in (1, 2):
        assert (await fleet.push(worker, [start, start])).accepted == 1
        assert (await fleet.push(worker, links("h/a"))).accepted == int(crawl == 1)
        await fleet.complete(worker, (await fleet.pop(worker)).leases)
        assert await worker.finish(crawl)


@pytest.mark.parametrize("ttl_ms", [0, 10**12])
async def test_o4_single_urls_are_forgotten(make_fleet: MakeFleet, ttl_ms: int) -> None:
    fleet = make_fleet(ttl_ms=ttl_ms)
    worker = await fleet.opened()
    found = [*links("h/a", "h/b", "h/c"), link("http://h/", kind=START)]
    await fleet.push(worker, found)
    before = (await fleet.pop(worker, 1)).generation
    controls = Controls(fleet.redis, fleet.keys, "here")
    assert controls.forget([found[0].fingerprint, found[3].fingerprint, b"never seen"]) == 2
    assert fleet.redis.hget(fleet.keys.meta, "seen") == b"2"
    assert (await fleet.push(worker, found)).accepted == 2
    assert (await fleet.pop(worker, 1)).generation > before
    assert controls.forget([b"never seen"]) == 0


async def test_o4_a_bloom_filter_says_what_to_do_instead(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(dedup="bitmap")
    worker = await fleet.opened()
    controls = Controls(fleet.redis, fleet.keys, "here")
    assert controls.forget([b"never seen"]) == 0
    await fleet.push(worker, links("h/a"))
    with pytest.raises(FrontierError, match="can't forget one URL of many: `scrapy seed --dont-filter` has it fetched"):
        controls.forget([b"any"])
