"""Seeds that were in a dead worker's hands: run alone, and only deaths alone count."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fleet import Fleet, MakeFleet, link, links, seed, taken, urls

pytestmark = pytest.mark.every_redis


async def test_suspects_run_alone_and_only_deaths_alone_count(make_fleet: MakeFleet) -> None:
    """One poisonous seed among innocents, which kills every worker that begins it: the innocents all come through."""
    fleet = make_fleet()
    first = await fleet.opened()
    poison = seed("http://h/poison")
    pages = [link(f"http://h/{n}") for n in range(20)]
    await fleet.push(first, [*pages[:7], link("http://h/poison"), *pages[7:]])
    done, deaths = Counter[bytes](), 0
    helper = await fleet.opened()
    while fleet.status().queued:
        worker = await fleet.opened()
        while leases := (await fleet.pop(worker, 8)).leases:
            if poison in [lease.seed for lease in leases]:
                assert deaths == 0 or len(leases) == 1
                deaths += 1
                await fleet.die(worker, by=helper)
                break
            await fleet.complete(worker, leases)
            done.update(lease.seed for lease in leases)
        else:
            await worker.leave()
    assert done == Counter(page.seed for page in pages)
    assert deaths == 4  # once with others, three times alone
    assert fleet.status().dead == 1
    assert b"died 3 times while it ran alone" in fleet.redis.hvals(fleet.keys.dead)[0]


async def test_a_suspect_waits_until_its_tester_holds_nothing_and_then_is_alone(fleet: Fleet) -> None:
    dead, tester, other = [await fleet.opened() for _ in range(3)]
    await fleet.push(dead, links("h/suspect"))
    await fleet.pop(dead)
    await fleet.push(tester, links(*(f"h/{n}" for n in range(11))))
    held = (await fleet.pop(tester, 2)).leases
    await fleet.die(dead, by=other)
    answer = await fleet.pop(tester, 1)
    assert answer.idle
    assert answer.idle.drain
    assert len((await fleet.pop(other, 2)).leases) == 2  # only one worker tests
    await fleet.complete(tester, held[:1])
    assert (await fleet.pop(tester, 1)).idle
    await fleet.complete(tester, held[1:])
    (alone,) = (await fleet.pop(tester, 5)).leases
    assert alone.seed == seed("http://h/suspect")
    # It was the last suspect, and still nothing else is handed to this worker while it runs.
    answer = await fleet.pop(tester, 5)
    assert answer.idle
    assert answer.idle.drain
    assert len((await fleet.pop(other, 2)).leases) == 2
    await fleet.complete(tester, [alone])
    assert len((await fleet.pop(tester, 5)).leases) == 5


@pytest.mark.parametrize("end", ["leave", "die"])
async def test_another_worker_tests_when_the_tester_is_gone(fleet: Fleet, end: str) -> None:
    dead, tester, other = [await fleet.opened() for _ in range(3)]
    await fleet.push(dead, links("h/suspect", "h/a"))
    await fleet.pop(dead, 1)
    await fleet.pop(tester, 1)
    await fleet.die(dead, by=other)
    answer = await fleet.pop(tester)
    assert answer.idle
    assert answer.idle.drain
    if end == "leave":
        await tester.leave()
        assert fleet.status().suspects == 1
    else:
        await fleet.die(tester, by=other)
        assert fleet.status().suspects == 2
    assert await taken(fleet, other) == ["h/suspect"]


async def test_a_suspect_that_is_given_back_is_still_one(fleet: Fleet) -> None:
    dead, tester = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, links("h/suspect", "h/a"))
    await fleet.pop(dead, 1)
    await fleet.die(dead, by=tester)
    (lease,) = (await fleet.pop(tester)).leases
    await tester.give_back([lease.token])
    fleet.audit()
    assert fleet.status().suspects == 1
    assert await taken(fleet, tester) == ["h/suspect"]


async def test_suspects_whose_host_must_wait_hold_nobody_up(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    dead, alive = await fleet.opened(), await fleet.opened()
    await fleet.push(dead, links("blocked/a", "free/a"))
    await fleet.pop(dead)
    await fleet.push(alive, links("free/b", "blocked/b"))
    await fleet.die(dead, by=alive)
    fleet.redis.zadd(fleet.keys.busy, {"blocked": "inf"})
    (lease,) = (await fleet.pop(alive)).leases
    assert urls([lease]) == ["http://free/a"]
    await fleet.complete(alive, [lease])
    assert await taken(fleet, alive) == ["free/b"]
    assert fleet.status().suspects == 1


async def test_the_host_that_a_tester_waits_for_is_kept_free(make_fleet: MakeFleet) -> None:
    """Else the other workers would take each of its turns, and the suspect would run when its host's queue is empty."""
    fleet = make_fleet(delay_ms=1000)
    dead, tester, other = [await fleet.opened() for _ in range(3)]
    await fleet.push(dead, links("h/suspect", "h/a", "h/b", "i/a"))
    await fleet.pop(dead, 1)
    (held,) = (await fleet.pop(tester, 1)).leases
    assert urls([held]) == ["http://i/a"]
    await fleet.die(dead, by=other)
    fleet.advance(1001)
    answer = await fleet.pop(tester)
    assert answer.idle
    assert answer.idle.drain
    await fleet.push(other, links("j/a"))
    assert await taken(fleet, other) == ["j/a"]
    await fleet.complete(tester, [held])
    assert await taken(fleet, tester) == ["h/suspect"]
