"""The limit on queued seeds: what brings more slows down and never stands still, or the lowest go and are counted."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from crawler.frontier.controls import Controls
from crawler.frontier.messages import START, UNFILTERED, Ack, Lease, Link, Want
from tests.fleet import Fleet, MakeFleet, host_of, link, links, seed, taken, urls

pytestmark = pytest.mark.every_redis


def pass_pause(fleet: Fleet) -> int:
    """Let the pause of a full queue pass; return how long it was, in ms."""
    until_ms = int(fleet.redis.hget(fleet.keys.meta, "slow_ms") or 0)
    fleet.redis.hdel(fleet.keys.meta, "slow_ms")
    return until_ms - fleet.status().now_ms


# -- slow


async def test_a_full_queue_is_said_to_whoever_brings_and_takes_seeds(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=4)
    worker = await fleet.opened()
    assert (await fleet.push(worker, links("h/a", "h/b", "h/c"))).full is False
    assert not fleet.status().is_full
    assert (await fleet.push(worker, links("h/d"))).full is True
    assert fleet.status().is_full
    answer = await fleet.pop(worker)
    assert (answer.full, len(answer.leases)) == (True, 1)
    await fleet.complete(worker, answer.leases)
    assert not fleet.status().is_full
    assert (await fleet.pop(worker)).full is False


async def test_no_more_goes_out_than_there_is_room_for_what_it_may_bring(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=10)
    worker = await fleet.opened()
    await fleet.push(worker, links(*(f"h/{n}" for n in range(7))))
    assert len((await fleet.pop(worker)).leases) == 3


async def test_while_the_queue_is_full_seeds_go_out_singly_and_after_a_pause(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=10)
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links(*(f"h/{n}" for n in range(20))))
    (lease,) = (await fleet.pop(one)).leases
    assert (await fleet.pop(two)).idle
    pause_ms = pass_pause(fleet)
    assert 30_000 < pause_ms <= 60_000
    assert (await fleet.pop(one)).idle  # it has one in hand
    assert len((await fleet.pop(two)).leases) == 1
    pass_pause(fleet)
    await fleet.complete(one, [lease])
    assert len((await fleet.pop(one)).leases) == 1


async def test_nothing_is_refused_and_a_full_queue_drains(make_fleet: MakeFleet) -> None:
    """A finite web of which a page has a hundred links at once: all of it is crawled, and the queue stays small."""
    fleet, pages, limit = make_fleet(max_seeds=40), 300, 40
    workers = [await fleet.opened() for _ in range(3)]
    shuffled = random.Random(8)
    await workers[0].exchange(links("h/0"))
    fetched: list[str] = []
    longest = 0
    while fleet.status().queued:
        for worker in workers:
            leases = (await worker.exchange(want=Want(16, 100, {}, started=True))).leases
            fetched += urls(leases)
            found = [shuffled.randrange(pages) for _ in leases for _ in range(8)]
            found += [(7 * page) % pages for page in range(len(fetched), len(fetched) + 2 * len(leases))]
            children = [Ack(lease.token, "", []) for lease in leases]
            await worker.exchange([link(f"http://h/{number}") for number in found], children)
        longest = max(longest, fleet.status().queued)
        pass_pause(fleet)
    assert fleet.audit() == Counter()
    assert len(fetched) == len(set(fetched)) == fleet.status().accepted
    assert longest > limit
    assert await workers[0].finish(1)


async def test_suspects_are_run_however_full_the_queue_is(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=4)
    dead, worker = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, links("h/a", "h/b"))
    await fleet.pop(dead)
    await fleet.push(worker, links(*(f"i/{n}" for n in range(9))))
    await fleet.die(dead, by=worker)
    fleet.redis.hset(fleet.keys.meta, "slow_ms", 10**15)
    for name in "ab":
        leases = (await fleet.pop(worker)).leases
        assert urls(leases) == [f"http://h/{name}"]
        await fleet.complete(worker, leases)


# -- drop-lowest


async def test_over_the_limit_the_newest_of_the_lowest_priority_go(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=5, drops=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/low1", "h/low2", "h/low3", priority=-1))
    answer = await fleet.push(worker, [*links("h/a", "h/b", priority=1), *links("h/c")])
    assert (answer.accepted, answer.full) == (3, False)
    assert fleet.audit() == Counter(map(seed, [f"http://h/{name}" for name in ("low1", "low2", "a", "b", "c")]))
    await fleet.push(worker, links("h/low4", priority=-2))
    assert await taken(fleet, worker) == ["h/a", "h/b", "h/c", "h/low1", "h/low2"]
    dead = Controls(fleet.redis, fleet.keys, "here").dead()
    assert sorted((one.priority, one.seed) for one in dead) == [(-2, "--http://h/low4"), (-1, "--http://h/low3")]


async def test_newest_first_drops_the_oldest_last(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=3, drops=True, lifo=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    await fleet.push(worker, links("h/d"))
    assert await taken(fleet, worker) == ["h/c", "h/b", "h/a"]


@pytest.mark.parametrize("lifo", [False, True])
async def test_what_waits_for_its_host_is_dropped_too(make_fleet: MakeFleet, lifo: bool) -> None:
    fleet = make_fleet(max_seeds=30, drops=True, delay_ms=1000, lifo=lifo)
    worker = await fleet.opened()
    await fleet.push(worker, [link(f"http://h{n % 3}/{n}", -1) for n in range(30)])
    held = (await fleet.pop(worker)).leases
    assert fleet.status().parked == 27
    await fleet.push(worker, [link(f"http://other/{n}", 1) for n in range(20)])
    left = fleet.audit()
    assert sum(host_of(one) == "other" for one in left) == 20
    assert left.total() == 30
    await fleet.push(worker, [link(f"http://more/{n}", 1) for n in range(20)])
    left = fleet.audit()
    assert sum(host_of(one) in {"other", "more"} for one in left) == 27
    assert fleet.status().parked == 0
    await fleet.complete(worker, held)
    fleet.advance(2000)
    found: list[Lease] = []
    while leases := (await fleet.pop(worker)).leases:
        found += leases
        await fleet.complete(worker, leases)
        fleet.advance(2000)
    assert len(found) == 27


async def test_children_are_dropped_as_links_are(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=3, drops=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    (lease,) = (await fleet.pop(worker, 1)).leases
    await worker.exchange(acks=[Ack(lease.token, "", [(0, seed("http://h/x")), (0, seed("http://h/y"))])])
    assert fleet.audit() == Counter(map(seed, ["http://h/b", "http://h/c", "http://h/x"]))


async def test_all_are_counted_and_a_few_are_kept_to_be_looked_at(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=10, drops=True)
    worker = await fleet.opened()
    for first in range(0, 500, 250):
        await fleet.push(worker, [link(f"http://h/{n}") for n in range(first, first + 250)])
    status = fleet.status()
    assert (status.queued, status.dead, status.removed) == (10, 100, 390)
    while leases := (await fleet.pop(worker)).leases:
        await fleet.complete(worker, leases)
    assert await worker.finish(1)
    await fleet.push(worker, [link(f"http://h/{n}") for n in range(20)])
    assert (fleet.status().epoch, fleet.status().dead) == (2, 110)


async def test_random_pushes_keep_the_limit_and_the_books(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=50, drops=True, delay_ms=5, scan=20)
    workers = [await fleet.opened() for _ in range(2)]
    shuffled = random.Random(4)
    for step in range(60):
        worker = shuffled.choice(workers)
        found = [link(f"http://h{shuffled.randrange(6)}/{step}/{n}", shuffled.randrange(-2, 3)) for n in range(12)]
        found.append(Link(shuffled.randrange(3), b"", UNFILTERED, seed("http://h0/again")))
        found.append(link("http://h1/start", kind=START))
        await fleet.push(worker, found)
        assert fleet.status().queued + fleet.status().leased <= 50
        leases = (await fleet.pop(worker, shuffled.randrange(1, 8), per_host=2)).leases
        await fleet.complete(worker, leases[::2])
        await worker.give_back([lease.token for lease in leases[1::2]])
        fleet.audit()
        fleet.advance(6)
