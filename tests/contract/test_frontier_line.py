"""A line that loses replies, a Redis that forgets, fills up or fails over: nothing happens twice, nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from crawler.errors import FrontierDownError, FrontierError, FrontierFullError
from crawler.frontier.calls import Call
from crawler.frontier.messages import START, UNFILTERED, Ack, Answer, Link, Turn, Want
from tests.fleet import Fleet, MakeFleet, link, links, seed, taken, urls

pytestmark = pytest.mark.every_redis

WANT = Want(3, 100, {}, started=True)


# -- replies that are lost


async def talk(fleet: Fleet, faults: list[int]) -> tuple[list[str], Counter[bytes]]:
    """Say all that an exchange can hold, over a line with *faults*; return what came back, and what is there then."""
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c", "h/d"))
    first, second = (await fleet.pop(worker, 2)).leases
    found = [link("http://h/e"), Link(0, b"", UNFILTERED, seed("http://h/f")), link("http://h/", kind=START)]
    acks = [Ack(first.token, "", [(0, seed("http://h/child"))]), Ack(second.token, "bad")]
    fleet.lossy.faults = faults
    answer = await worker.exchange(found, acks, [Turn(first.token, 0)], WANT)
    assert not fleet.lossy.faults
    status = fleet.status()
    assert (status.accepted, status.done, status.dead, status.leased) == (8, 1, 1, 3)
    # The worker and the server agree on the number of the next call.
    assert not (await worker.exchange(links("h/g"), want=WANT)).lost
    return urls(answer.leases), fleet.audit()


@pytest.mark.parametrize("faults", [[0], [1], [2], [3], [3, 3], [1, 2], [2, 0, 3], [1, 1, 1]])
async def test_an_exchange_that_is_repeated_happens_once(make_fleet: MakeFleet, faults: list[int]) -> None:
    told, kept = await talk(make_fleet(), faults)
    assert told == ["http://h/c", "http://h/d", "http://h/e"]
    assert kept == Counter(map(seed, [f"http://h/{name}" for name in ("c", "d", "e", "f", "", "child", "g")]))


@pytest.mark.parametrize("faults", [[0], [1], [1, 1]])
async def test_what_is_given_back_over_a_lossy_line_goes_back_once(fleet: Fleet, faults: list[int]) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    leases = (await fleet.pop(worker)).leases
    fleet.lossy.faults = [*faults]
    await worker.give_back([leases[1].token])
    fleet.audit()
    assert await taken(fleet, worker) == ["h/b"]
    fleet.lossy.faults = [*faults]
    await worker.leave()
    assert fleet.audit() == Counter(map(seed, ["http://h/a", "http://h/b", "http://h/c"]))
    assert fleet.status().workers == {}


async def test_a_server_that_forgot_the_scripts_is_told_them_again(fleet: Fleet) -> None:
    worker = await fleet.opened()
    fleet.redis.script_flush()
    await worker.exchange(links("h/a", "h/b"))
    (lease, _) = (await worker.exchange(want=WANT)).leases
    for known in ("push", "complete", "pop"):  # whichever of them it knows, the order is kept
        fleet.redis.script_flush()
        far = (worker.seq + 100, 0)
        early = {
            "push": worker.calls.push(far, []),
            "complete": worker.calls.complete(far, [], []),
            "pop": worker.calls.pop(far, WANT),
        }
        await worker.line.many([early[known]])
        answer = await worker.exchange(links(f"h/{known}"), [Ack(lease.token)], want=WANT)
        assert not answer.lost
        lease = answer.leases[0]
    fleet.audit()
    assert fleet.status().done == 3


async def test_a_pop_that_hands_nothing_out_uses_no_number(fleet: Fleet) -> None:
    worker = await fleet.opened()
    for _ in range(3):
        assert (await fleet.pop(worker)).idle
    assert worker.seq == 1
    await fleet.push(worker, links("h/a"))
    assert worker.seq == 2
    assert len((await fleet.pop(worker)).leases) == 1
    assert worker.seq == 3


async def test_a_pop_that_arrives_after_it_was_given_up_does_no_harm(fleet: Fleet) -> None:
    """Its worker asked again over another connection, and was told that there is nothing."""
    worker, other = await fleet.opened(), await fleet.opened()
    assert (await fleet.pop(worker)).idle
    await fleet.push(other, links("h/a", "h/b", "h/c", "h/d"))
    await worker.line.many([worker.calls.pop(worker.number(), WANT)])  # nobody hears the answer
    assert fleet.status().workers[worker.worker][1] == 3
    # The number of the worker's next call is used up. That call must not be taken for one that was done already, and
    # no call after it may be applied without it.
    before = fleet.snapshot()
    answer = await worker.exchange(links("h/e"), turns=[Turn("", 0)], want=WANT)
    assert answer.lost
    assert fleet.snapshot() == before
    for said in ({"links": links("h/e")}, {"turns": [Turn("", 0)]}, {"turns": [Turn("", 0)], "want": WANT}):
        assert (await worker.exchange(**said)).lost  # type: ignore[arg-type]
        assert fleet.snapshot() == before
    opened = await worker.open(begin=False, starting=False)
    assert opened.missing == frozenset()
    assert fleet.status().leased == 0
    assert not (await worker.exchange(links("h/e"))).lost
    assert await taken(fleet, worker) == ["h/a", "h/b", "h/c", "h/d", "h/e"]


async def test_a_late_pop_that_the_next_pop_finds_is_simply_its_answer(fleet: Fleet) -> None:
    worker, other = await fleet.opened(), await fleet.opened()
    assert (await fleet.pop(worker)).idle
    await fleet.push(other, links("h/a", "h/b", "h/c", "h/d"))
    await worker.line.many([worker.calls.pop(worker.number(), WANT)])
    assert await taken(fleet, worker) == ["h/a", "h/b", "h/c"]
    assert await taken(fleet, worker) == ["h/d"]


async def test_a_worker_says_once_that_redis_is_away_and_once_that_it_is_back(fleet: Fleet) -> None:
    worker = await fleet.opened()
    heard: list[FrontierError | None] = []
    worker.line.on_trouble = heard.append
    fleet.lossy.faults = [0, 1, 0]
    await worker.exchange(links("h/a"))
    assert [type(error) for error in heard] == [FrontierDownError, type(None)]


async def test_the_first_call_fails_at_once_when_redis_is_away(fleet: Fleet) -> None:
    worker = fleet.worker()
    fleet.lossy.faults = [0]
    with pytest.raises(FrontierDownError, match="Redis at here can't be reached"):
        await worker.open(begin=True, starting=True)


# -- a Redis that lost its last moments


async def test_a_worker_notices_that_its_last_calls_are_gone(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    old = (await fleet.pop(worker, 2)).leases
    before = fleet.snapshot()
    new = (await worker.exchange(links("h/d"), [Ack(old[0].token)], want=Want(1, 100, {}, started=True))).leases
    fleet.roll_back(before)
    answer = await worker.exchange(links("h/e"), [Ack(old[1].token)], want=WANT)
    assert answer == Answer(lost=True)
    opened = await worker.open(begin=False, starting=False, held=[old[1].token, new[0].token])
    assert (opened.was, opened.missing) == (3, frozenset([new[0].token]))
    fleet.audit()
    # What it did not name is back; what it holds is still its own; its numbers go on.
    assert await taken(fleet, worker) == ["h/a", "h/c"]
    assert (await fleet.complete(worker, [old[1]])).done == 1


async def test_an_open_whose_reply_was_lost_says_the_same_once_more(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    before = fleet.snapshot()
    for name in "bcd":
        await worker.exchange(links(f"h/{name}"))
    fleet.roll_back(before)
    assert (await worker.exchange(links("h/e"))).lost
    fleet.lossy.faults = [1, 1]
    opened = await worker.open(begin=False, starting=False, patient=True)
    assert opened.was == 2  # else the worker would take b, c and d for safe
    # And once the session went on, a later loss is told from this one.
    before = fleet.snapshot()
    await worker.exchange(links("h/b"))
    fleet.roll_back(before)
    assert (await worker.exchange(links("h/c"))).lost
    assert (await worker.open(begin=False, starting=False)).was == worker.seq - 2


async def test_a_session_that_expired_is_told_from_one_that_fell_behind(fleet: Fleet) -> None:
    worker, other = await fleet.opened(), await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b"))
    (lease,) = (await fleet.pop(worker, 1)).leases
    await fleet.die(worker, by=other)
    assert (await worker.exchange(links("h/c"), [Ack(lease.token)], want=WANT)).lost
    opened = await worker.open(begin=False, starting=True, held=[lease.token])
    assert (opened.was, opened.missing) == (-1, frozenset([lease.token]))
    fleet.audit()
    assert fleet.status().starting == 1


async def test_a_session_that_expires_in_the_midst_of_an_exchange_loses_nothing(fleet: Fleet) -> None:
    worker, other = await fleet.opened(), await fleet.opened()
    await fleet.push(worker, links("h/a"))
    (lease,) = (await fleet.pop(worker)).leases
    fleet.lossy.faults = [1]  # the push is applied, and then the line breaks
    again = asyncio.create_task(worker.exchange(links("h/b"), [Ack(lease.token)]))
    while fleet.status().accepted == 1:  # noqa: ASYNC110 - another client's progress has no event
        await asyncio.sleep(0)
    await fleet.die(worker, by=other)
    answer = await again
    assert answer.lost or answer.done == 1
    if answer.lost:
        assert fleet.audit() == Counter(map(seed, ["http://h/a", "http://h/b"]))


async def test_a_redis_that_forgets_that_a_session_expired_is_found_out(fleet: Fleet) -> None:
    """Else leases would be left that their worker has given up, and keeps alive."""
    worker, other = await fleet.opened(), await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b"))
    await fleet.pop(worker)
    before = fleet.snapshot()
    await fleet.die(worker, by=other)
    assert (await worker.exchange(links("h/c"))).lost
    await worker.open(begin=False, starting=False)
    fleet.roll_back(before)
    assert (await worker.exchange(links("h/c"))).lost
    await worker.open(begin=False, starting=False)
    assert fleet.status().leased == 0
    assert await taken(fleet, worker) == ["h/a", "h/b"]


async def test_a_frontier_that_lost_everything_begins_anew(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    fleet.redis.flushall()
    assert (await worker.exchange(links("h/b"))).lost
    opened = await worker.open(begin=False, starting=False)
    assert (opened.was, opened.epoch) == (-1, 1)
    await worker.exchange(links("h/a", "h/b"))
    assert fleet.redis.smembers("seedbed:spiders") == {b"spider"}
    leases = (await fleet.pop(worker)).leases
    await fleet.complete(worker, leases)
    assert await worker.finish(5)  # its crawl may have had another number before


async def test_a_crawl_whose_beginning_was_forgotten_still_ends_only_when_it_is_done(fleet: Fleet) -> None:
    worker = await fleet.opened()
    assert await worker.finish(1)
    await worker.leave()
    before = fleet.snapshot()
    again = fleet.worker()
    assert (await again.open(begin=True, starting=False)).epoch == 2
    await again.exchange(links("h/a"))
    fleet.roll_back(before)
    assert (await again.exchange(links("h/b"))).lost
    await again.open(begin=False, starting=False)
    await again.exchange(links("h/a", "h/b"))
    assert not await again.finish(2)
    await fleet.complete(again, (await fleet.pop(again)).leases)
    assert await again.finish(2)


async def test_after_a_restart_everybody_gets_the_time_of_a_lease_to_report(fleet: Fleet) -> None:
    dead, alive, other = [await fleet.opened() for _ in range(3)]
    await fleet.push(dead, links("h/a"))
    await fleet.pop(dead)
    assert await alive.reclaim() == (False, 0, 0)
    fleet.redis.hset(fleet.keys.meta, "run_id", "that of the process before")
    fleet.expire(dead, alive, other)
    # Who finds it is told until then, as the answer may be lost; nobody else has to have the log written anew.
    assert await alive.reclaim() == (True, 0, 0)
    assert await other.reclaim() == (False, 0, 0)
    assert await alive.reclaim() == (True, 0, 0)
    await alive.rewrite_log()
    fleet.advance(fleet.rules.lease_ms + 1)
    fleet.redis.zadd(fleet.keys.workers, {alive.worker: 10**13, other.worker: 10**13})
    assert await other.reclaim() == (False, 1, 0)
    assert await alive.reclaim() == (False, 0, 0)
    fleet.audit()


# -- a Redis that is full, or may not be written to


async def test_a_full_server_refuses_a_push_with_nothing_done_and_takes_it_when_there_is_room(
    make_fleet: MakeFleet,
) -> None:
    for dedup in ("exact", "bitmap", "bloom", "off"):
        fleet = make_fleet(dedup=dedup)
        fleet.redis.flushall()
        worker = await fleet.opened()
        await fleet.push(worker, links("h/a", "h/b"))
        (lease, _) = (await fleet.pop(worker, 2)).leases
        found = [*links("h/c", "h/d"), link("http://h/", kind=START), Link(0, b"", UNFILTERED, seed("http://h/e"))]
        full = asyncio.Event()
        worker.line.on_trouble = lambda error, full=full: full.set() if isinstance(error, FrontierFullError) else None
        with fleet.full():
            before = fleet.snapshot()
            waits = asyncio.create_task(worker.exchange(found, [Ack(lease.token)], want=WANT))
            await full.wait()
            assert fleet.snapshot() == before
        answer = await waits
        assert (answer.accepted, answer.done, len(answer.leases)) == (4, 1, 3)
        fleet.audit()


async def test_a_full_server_lets_all_through_that_drains_it(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    one, two, dead, tester = [await fleet.opened() for _ in range(4)]
    await fleet.push(one, [link(f"http://h{n % 9}/{n}") for n in range(40)])
    await fleet.pop(dead, 2)
    leases = (await fleet.pop(one, 4)).leases
    fleet.expire(dead)
    fleet.redis.hset(fleet.keys.meta, "run_id", "that of the process before")
    children = [(0, seed("http://h0/child"))]
    starting = Want(3, 100, {}, started=False)
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "complete": lambda: one.exchange(acks=[Ack(leases[0].token, "", children), Ack(leases[1].token, "bad")]),
        "turns": lambda: one.exchange(turns=[Turn(leases[2].token, 500)]),
        "extend": lambda: one.run(Call("extend", [fleet.keys.workers], [one.worker, fleet.rules.lease_ms])),
        "found": one.reclaim,
        "reclaim": two.reclaim,
        "elect": lambda: one.exchange(want=starting),
        "pop": lambda: two.exchange(want=starting),
        "open": lambda: two.open(begin=False, starting=True),
        "give back": lambda: one.give_back([lease.token for lease in leases]),
        "leave": one.leave,
        "suspect": lambda: tester.exchange(want=WANT),
        "finish": lambda: two.finish(1),
    }
    for name, step in steps.items():
        with fleet.full():
            for worker in (one, two, tester):
                worker.line.on_trouble = lambda error, name=name: pytest.fail(f"{name} was refused: {error}")
            await step()
        fleet.audit()
        if name == "found":
            fleet.redis.hset(fleet.keys.meta, "grace_ms", 0)
        fleet.advance(1001 if name in {"reclaim", "leave"} else 0)
    status = fleet.status()
    assert (status.done, status.dead, status.suspects) == (1, 1, 1)


async def test_a_replica_is_waited_for_until_it_is_made_a_master(fleet: Fleet) -> None:
    worker = await fleet.opened()
    heard = asyncio.Event()
    worker.line.on_trouble = lambda error: heard.set() if isinstance(error, FrontierDownError) else None
    fleet.redis.replicaof("127.0.0.1", 1)
    try:
        waits = asyncio.create_task(worker.exchange(links("h/a"), want=WANT))
        await heard.wait()
    finally:
        fleet.redis.replicaof("no", "one")
    assert len((await waits).leases) == 1
