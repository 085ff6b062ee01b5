"""How many pages a crawl may fetch, in all and of one host: exact, however many workers take, die and give back."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from crawler.frontier.controls import Controls
from crawler.frontier.messages import Lease, Want
from tests.fleet import Fleet, MakeFleet, host_of, link, links, taken, urls

pytestmark = pytest.mark.every_redis


async def test_a_crawl_hands_out_as_many_pages_as_it_may_and_removes_the_rest(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=5)
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, [link(f"http://h{n}/", n % 2) for n in range(9)])
    first = (await fleet.pop(one, 3)).leases
    assert len((await fleet.pop(two, 100)).leases) == 2
    assert fleet.status().queued == 4
    # Pages go on to bring links; there is no turn for them any more.
    await one.exchange(links("h/late"), want=Want(9, 9, {}, started=True))
    status = fleet.status()
    assert (status.pages, status.max_pages, status.queued, status.removed) == (5, 5, 0, 5)
    fleet.audit()
    await fleet.complete(one, first)
    await two.leave()
    assert len(await taken(fleet, one)) == 2


async def test_a_crawl_at_its_limit_is_complete_when_its_last_page_is_done(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=2)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    leases = (await fleet.pop(worker)).leases
    answer = await worker.exchange(links("h/d"), want=Want(9, 9, {}, started=True))
    assert answer.idle
    assert not await worker.finish(1)
    await fleet.complete(worker, leases)
    assert await worker.finish(1)
    assert fleet.status().removed == 2


async def test_what_is_given_back_is_counted_once(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=4, max_host_pages=3)
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a", "h/b", "h/c", "h/d", "i/a"))
    leases = (await fleet.pop(one)).leases
    assert urls(leases) == ["http://h/a", "http://h/b", "http://h/c", "http://i/a"]
    await one.give_back([leases[1].token, leases[3].token])
    assert fleet.redis.hgetall(fleet.keys.pages) == {b"h": b"2", b"i": b"0"}
    assert fleet.status().pages == 2
    assert await taken(fleet, two) == ["h/b", "i/a"]
    assert await taken(fleet, two) == []
    assert (fleet.status().pages, fleet.status().removed) == (4, 1)


async def test_what_a_dead_worker_held_is_counted_once_and_comes_back_past_the_limit(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=4, max_host_pages=4)
    dead, worker = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, links("h/a", "h/b", "h/c", "h/d", "h/e", "h/f"))
    await fleet.pop(dead, 2)
    await fleet.die(dead, by=worker)
    done = []
    for _ in range(4):
        leases = (await fleet.pop(worker)).leases
        done += urls(leases)
        await fleet.complete(worker, leases)
    assert sorted(done) == [f"http://h/{name}" for name in "abcd"]
    assert fleet.status().pages == 4
    assert await worker.finish(1)


async def test_a_suspect_that_is_given_back_is_counted_once(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=1, max_host_pages=1)
    dead, worker = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, links("h/a"))
    await fleet.pop(dead)
    await fleet.die(dead, by=worker)
    for _ in range(3):
        (lease,) = (await fleet.pop(worker)).leases
        await worker.give_back([lease.token])
        assert fleet.status().pages == 1


@pytest.mark.parametrize("delay_ms", [0, 1000])
async def test_a_host_gives_as_many_pages_as_it_may(make_fleet: MakeFleet, delay_ms: int) -> None:
    fleet = make_fleet(max_host_pages=3, delay_ms=delay_ms)
    one, two = await fleet.opened(), await fleet.opened()
    shuffled = random.Random(3).sample(range(60), 60)
    await fleet.push(one, [link(f"http://h{n % 4}/{n}", n % 3) for n in shuffled])
    fetched: list[Lease] = []
    for _ in range(12):
        for worker in (one, two):
            leases = (await fleet.pop(worker, 5, per_host=2)).leases
            fetched += leases
            await fleet.complete(worker, leases)
        fleet.advance(delay_ms + 1)
    assert Counter(host_of(lease.seed) for lease in fetched) == dict.fromkeys(["h0", "h1", "h2", "h3"], 3)
    assert (fleet.status().pages, fleet.status().removed) == (12, 48)
    assert not fleet.redis.exists(
        fleet.keys.parked, fleet.keys("ready:0"), fleet.keys("ready:1"), fleet.keys("ready:2")
    )
    assert await one.finish(1)


async def test_a_host_at_its_limit_holds_nobody_up(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_host_pages=1, scan=10)
    worker = await fleet.opened()
    await fleet.push(worker, [link(f"http://big/{n}") for n in range(100)] + links("small/"))
    found = []
    for _ in range(12):
        found += await taken(fleet, worker, 3)
    assert found == ["big/0", "small/"]
    assert fleet.status().removed == 99


async def test_what_was_set_apart_for_a_host_is_limited_as_well(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_host_pages=3)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c", "h/d", "h/e"))
    assert await taken(fleet, worker, per_host=1) == ["h/a"]
    assert fleet.status().parked == 4
    assert await taken(fleet, worker) == ["h/b", "h/c"]
    assert (fleet.status().removed, fleet.status().queued) == (2, 0)


async def test_without_a_limit_no_host_is_counted(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "i/a"))
    leases = (await fleet.pop(worker)).leases
    assert not fleet.redis.exists(fleet.keys.pages)
    await worker.give_back([leases[0].token])
    assert not fleet.redis.exists(fleet.keys.pages)
    assert fleet.status().pages == 1


async def test_a_paused_crawl_removes_nothing(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=1)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b"))
    await fleet.pop(worker)
    fleet.redis.hset(fleet.keys.meta, "state", "paused")
    await fleet.pop(worker)
    assert fleet.status().queued == 1


async def test_the_next_crawl_counts_anew(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=2, max_host_pages=1)
    worker = await fleet.opened()
    for epoch in (1, 2):
        await fleet.push(worker, links("h/a", "h/b", "i/a", "j/a"))
        leases = (await fleet.pop(worker)).leases
        assert urls(leases) == ["http://h/a", "http://i/a"]
        assert (await fleet.pop(worker)).idle
        await fleet.complete(worker, leases)
        assert await worker.finish(epoch)
        await worker.leave()
        worker = await fleet.opened()


@pytest.mark.parametrize("by_host", [0, 4])
async def test_a_new_run_counts_what_is_in_hand(make_fleet: MakeFleet, by_host: int) -> None:
    fleet = make_fleet(max_pages=4, max_host_pages=by_host)
    dead, worker = await fleet.opened(), await fleet.opened()
    await fleet.push(worker, links("h/done", "h/a", "h/b", "h/c"))
    await fleet.complete(worker, (await fleet.pop(worker, 1)).leases)
    (lease,) = (await fleet.pop(worker, 1)).leases
    await fleet.pop(dead, 2)
    Controls(fleet.redis, fleet.keys, "here").clear(forget=True)
    assert fleet.status().pages == 3
    assert fleet.redis.hgetall(fleet.keys.pages) == ({b"h": b"3"} if by_host else {})
    await worker.give_back([lease.token])
    await dead.leave()
    await fleet.push(worker, links("h/d", "h/e"))
    assert await taken(fleet, worker) == ["h/b", "h/c", "h/a", "h/d"]
    assert await taken(fleet, worker) == []
    assert fleet.status().pages == 4


async def test_a_lost_reply_counts_no_page_twice(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_pages=3, max_host_pages=2)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c", "i/a"))
    fleet.lossy.faults = [1, 1]
    assert await taken(fleet, worker) == ["h/a", "h/b", "i/a"]
    assert fleet.status().pages == 3


async def test_a_limit_that_was_lowered_ends_the_crawl(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c", "h/d"))
    await fleet.pop(worker, 3)
    lower = await fleet.opened(max_pages=2)
    assert (await fleet.pop(lower)).idle
    assert (fleet.status().queued, fleet.status().max_pages) == (0, 2)
