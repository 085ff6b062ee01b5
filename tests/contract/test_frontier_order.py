"""In which order seeds come, and how they stay what they are."""

from __future__ import annotations

import pytest

from crawler.frontier.messages import Ack, Link, Turn
from tests.fleet import Fleet, MakeFleet, link, links, seed, taken, urls

pytestmark = pytest.mark.every_redis


async def test_seeds_come_in_the_order_in_which_they_were_pushed_o2(fleet: Fleet) -> None:
    worker = await fleet.opened()
    names = [f"h{n % 3}/{name}" for n, name in enumerate(("10", "9", "8", "1", "2", "3"))]
    await fleet.push(worker, links(*names))
    assert await taken(fleet, worker, 4) + await taken(fleet, worker) == names


async def test_priorities_are_exact_integers(fleet: Fleet) -> None:
    worker = await fleet.opened()
    priorities = [0, -1, 1, 2**53, -(2**53), 2**53 - 1, 1 - 2**53, 10, 9, -10, 2**31, -(2**31)]
    for nth, priority in enumerate(priorities):
        await fleet.push(worker, links(f"h/{priority}/{nth}", priority=priority))
    leases = (await fleet.pop(worker)).leases
    assert [lease.priority for lease in leases] == sorted(priorities, reverse=True)
    assert fleet.status().inboxes == {}


async def test_what_is_beyond_the_exact_priorities_counts_as_the_nearest(fleet: Fleet) -> None:
    worker = await fleet.opened()
    priorities = [2**53 + 1, 10**30, -(10**30), float("inf"), 1]
    await fleet.push(worker, [link(f"http://h/{n}", priority) for n, priority in enumerate(priorities)])  # type: ignore[arg-type]
    leases = (await fleet.pop(worker)).leases
    assert [(lease.priority, lease.seed[-1:]) for lease in leases] == [
        (2**53, b"0"),
        (2**53, b"1"),
        (2**53, b"3"),
        (1, b"4"),
        (-(2**53), b"2"),
    ]
    child = (10**30, seed("http://h/child"))
    await worker.exchange(acks=[Ack(leases[0].token, "", [child])])
    assert (await fleet.pop(worker)).leases[0].priority == 2**53


async def test_within_a_priority_the_order_is_kept_over_several_calls(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", priority=1) + links("h/b") + links("h/c", priority=1) + links("h/d"))
    await fleet.push(worker, links("h/e", priority=1))
    assert [await taken(fleet, worker, 1) for _ in range(5)] == [["h/a"], ["h/c"], ["h/e"], ["h/b"], ["h/d"]]


async def test_the_newest_comes_first_by_rule(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(lifo=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b"))
    await fleet.push(worker, links("h/c"))
    assert await taken(fleet, worker, 2) == ["h/c", "h/b"]
    await fleet.push(worker, links("h/d"))
    assert await taken(fleet, worker) == ["h/d", "h/a"]


@pytest.mark.parametrize("lifo", [False, True])
async def test_a_host_that_waits_keeps_its_order(make_fleet: MakeFleet, lifo: bool) -> None:
    fleet = make_fleet(lifo=lifo, delay_ms=1000)
    worker = await fleet.opened()
    order: list[str] = []
    for batch in ("ab", "cd", "ef", ""):
        await fleet.push(worker, links(*(f"h/{name}" for name in batch)))
        leases = (await fleet.pop(worker)).leases
        order += urls(leases)
        await worker.exchange(turns=[Turn(lease.token, 1000) for lease in leases])
        fleet.advance(1001)
    while leases := (await fleet.pop(worker)).leases:
        order += urls(leases)
        await worker.exchange(turns=[Turn(lease.token, 0) for lease in leases])
    assert "".join(url[-1] for url in order) == ("bdfeca" if lifo else "abcdef")


async def test_what_is_given_back_comes_next_in_its_old_order(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c", "h/d") + links("h/z", priority=1))
    leases = (await fleet.pop(worker, 4)).leases
    assert await worker.give_back([lease.token for lease in (leases[2], leases[0], leases[3])]) == 3
    fleet.audit()
    assert await taken(fleet, worker) == ["h/z", "h/b", "h/c", "h/d"]


async def test_any_number_of_seeds_goes_back_in_order(fleet: Fleet) -> None:
    worker, other = await fleet.opened(), await fleet.opened()
    names = [f"h/{n}/{'long' * 20}" for n in range(700)]
    await fleet.push(worker, links(*names))
    await fleet.pop(worker, 300, per_host=1000)
    await fleet.pop(worker, 300, per_host=1000)
    assert await worker.leave() == 600
    assert await taken(fleet, other, 1000, per_host=1000) == names


async def test_what_is_given_back_comes_before_what_is_set_apart_of_its_host(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    worker, other = await fleet.opened(), await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    assert await taken(fleet, worker) == ["h/a"]
    assert await worker.leave() == 1
    order: list[str] = []
    while len(order) < 3:
        fleet.advance(1001)
        leases = (await fleet.pop(other)).leases
        order += urls(leases)
        await other.exchange(turns=[Turn(lease.token, 1000) for lease in leases])
    assert order == ["http://h/a", "http://h/b", "http://h/c"]


async def test_a_ready_host_of_higher_priority_goes_before_many_that_have_waited_longer(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    worker = await fleet.opened()
    await fleet.push(worker, [link(f"http://h{n}/{page}") for n in range(50) for page in "ab"])
    first = (await fleet.pop(worker)).leases
    await worker.exchange(turns=[Turn(lease.token, 1000) for lease in first])
    # Both are set apart, as their host must still wait; and its turn comes last of all.
    await fleet.push(worker, links("h7/high", priority=5) + links("h7/higher", priority=6))
    assert await taken(fleet, worker) == []
    fleet.redis.zincrby(fleet.keys.busy, 500, "h7")
    fleet.advance(2000)
    answer = await fleet.pop(worker, 3)
    assert urls(answer.leases) == ["http://h7/higher", "http://h0/b", "http://h1/b"]
    await worker.exchange(turns=[Turn(answer.leases[0].token, 0)])
    assert await taken(fleet, worker, 2) == ["h7/high", "h10/b"]


async def test_a_thousand_children_and_links_of_one_priority_each(fleet: Fleet) -> None:
    worker = await fleet.opened()
    many = [link(f"http://h/{n}", priority=n) for n in range(9000)]
    await fleet.push(worker, many)
    await fleet.push(worker, [link(f"http://h/same/{n}") for n in range(9000)])
    leases = (await fleet.pop(worker, 9500, per_host=20000)).leases
    assert [lease.priority for lease in leases] == [*range(8999, -1, -1), *[0] * 500]
    assert (await fleet.complete(worker, leases)).done == 9500


@pytest.mark.parametrize("tail", [b"", b"\x00", b"\x01\x81\xa1d\x00", b"\x02\x05", b" \n\xff\x00\x00 1 2 3"])
async def test_a_seed_is_kept_byte_for_byte_wherever_it_goes(fleet: Fleet, tail: bytes) -> None:
    first, second = await fleet.opened(), await fleet.opened()
    whole = b"parse--http://h/" + tail
    await fleet.push(first, [Link(0, b"1", 0, whole)])
    await fleet.pop(first)
    await first.leave()
    assert (await fleet.pop(second)).leases[0].seed == whole
    assert await fleet.die(second, by=first) == (1, 0)
    third = await fleet.opened()
    assert (await fleet.pop(third)).leases[0].seed == whole
