"""Leases: who holds what, and what becomes of it when its worker leaves, freezes or dies."""

from __future__ import annotations

from collections import Counter

import pytest

from crawler.frontier.calls import Call
from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import Ack, Turn
from tests.fleet import Fleet, link, links, seed, taken, urls

pytestmark = pytest.mark.every_redis


async def test_the_leases_of_a_dead_worker_come_back_l1(fleet: Fleet) -> None:
    dead, alive = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, [link(f"http://h/{n}") for n in range(60)])
    taken_by_dead = (await fleet.pop(dead, 16)).leases
    assert len(taken_by_dead) == 16
    assert await fleet.die(dead, by=alive) == (16, 0)
    status = fleet.status()
    assert (status.queued, status.suspects, status.leased, status.workers_lost) == (60, 16, 0, 1)
    assert list(status.workers) == [alive.worker]
    got: list[str] = []
    while leases := (await fleet.pop(alive)).leases:
        got += urls(leases)
        await fleet.complete(alive, leases)
    assert Counter(got) == Counter(f"http://h/{n}" for n in range(60))
    # Those that it held come one by one, first of all.
    assert got[:16] == urls(taken_by_dead)


async def test_a_stale_complete_does_nothing_its_children_included(fleet: Fleet) -> None:
    slow, quick = await fleet.opened(), await fleet.opened()
    await fleet.push(slow, links("h/a", "h/b"))
    leases = (await fleet.pop(slow)).leases
    fleet.expire(slow)
    await quick.reclaim(limit=1)  # the first is gone, and the worker is still known
    fleet.audit()
    slow_acks = [Ack(lease.token, "", [(0, seed("http://h/child"))]) for lease in leases]
    answer = await slow.exchange(acks=slow_acks, turns=[Turn(leases[0].token, 60_000)])
    assert (answer.lost, answer.done, answer.stale) == (False, 1, 1)
    assert fleet.audit() == Counter([seed("http://h/a"), seed("http://h/child")])
    assert not fleet.redis.exists(fleet.keys.busy)


async def test_a_worker_that_lives_keeps_what_was_not_taken_yet(fleet: Fleet) -> None:
    slow, quick = await fleet.opened(), await fleet.opened()
    await fleet.push(slow, [link(f"http://h/{n}") for n in range(5)])
    await fleet.pop(slow)
    fleet.expire(slow)
    await quick.reclaim(limit=2)
    assert await extend(fleet, slow)
    assert await quick.reclaim() == (False, 0, 0)
    assert fleet.status().workers[slow.worker][1] == 3
    fleet.expire(slow)
    await quick.reclaim()
    assert not await extend(fleet, slow)
    fleet.audit()


async def extend(fleet: Fleet, worker: Frontier) -> bool:
    return bool(await worker.run(Call("extend", [fleet.keys.workers], [worker.worker, fleet.rules.lease_ms])))


async def test_leaving_gives_everything_back_and_signs_off_l12(fleet: Fleet) -> None:
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a", "h/b", "h/c"))
    await fleet.pop(one)
    await one.open(begin=False, starting=True, held=["3:2"])
    fleet.audit()
    assert await one.leave() == 1
    fleet.audit()
    assert list(fleet.status().workers) == [two.worker]
    assert await taken(fleet, two) == ["h/b", "h/a", "h/c"]
    assert (await one.exchange(links("h/d"))).lost


async def test_one_bad_seed_harms_only_itself_l7(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, [link(f"http://h/{n}") for n in range(17)])
    leases = (await fleet.pop(worker)).leases
    answer = await worker.exchange(
        acks=[Ack(lease.token, "no \x00 \xff URL" if nth == 8 else "") for nth, lease in enumerate(leases)]
    )
    assert answer.done == 16
    fleet.audit()
    assert fleet.status().dead == 1
    (entry,) = fleet.redis.hvals(fleet.keys.dead)
    reason = "no \x00 \xff URL".encode()
    assert entry.split(b" ", 1)[1] == b"0 0 %d %b " % (len(reason), reason) + leases[8].seed


async def test_reclaim_takes_no_more_than_it_was_told(fleet: Fleet) -> None:
    dead, alive = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, [link(f"http://h/{n}") for n in range(25)])
    await fleet.pop(dead)
    fleet.expire(dead)
    assert [(await alive.reclaim(10))[1] for _ in range(4)] == [10, 10, 5, 0]
    fleet.audit()
