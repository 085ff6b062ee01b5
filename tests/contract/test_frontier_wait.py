"""How long seeds wait in the queue: told of some, once each, whatever becomes of them in between."""

from __future__ import annotations

import pytest

from crawler.frontier.calls import oldest_call
from crawler.frontier.controls import Controls
from crawler.frontier.messages import Ack, Answer, Turn
from crawler.frontier.stamp import unstamped
from crawler.frontier.verbs import verb
from tests.fleet import Fleet, MakeFleet, links, seed

pytestmark = pytest.mark.every_redis

#: Of so many seeds one is stamped, at least.
ONE_IN = 128


def queued(fleet: Fleet, priority: int = 0) -> list[bytes]:
    found: list[bytes] = fleet.redis.lrange(fleet.keys.inbox(priority), 0, -1)
    return found


def stamp_ms(queued: bytes) -> int | None:
    return int(queued[1:12], 16) if unstamped(queued) != queued else None


def oldest(fleet: Fleet, seeds: int = 256, size_bytes: int = 10**9) -> int | None:
    """Return what the exporter would see of the inbox of priority 0."""
    _, names, args = oldest_call(fleet.keys.inbox(0), seeds, size_bytes)
    found: int | None = fleet.redis.eval(verb("oldest").text, len(names), *names, *args)
    return found


def stamped(fleet: Fleet, priority: int = 0) -> list[int]:
    """Return the places in an inbox whose seeds say when they came."""
    return [place for place, one in enumerate(queued(fleet, priority)) if stamp_ms(one) is not None]


def wait(fleet: Fleet, ms: int) -> None:
    """Let what is queued have come *ms* earlier."""
    for key in fleet.redis.scan_iter(match=fleet.keys("*")):
        if fleet.redis.type(key) == b"list":
            for place, one in enumerate(fleet.redis.lrange(key, 0, -1)):
                came_ms = stamp_ms(one)
                if came_ms is not None:
                    fleet.redis.lset(key, place, b"\x04%011x" % (came_ms - ms) + unstamped(one))


async def test_the_first_seed_of_an_empty_inbox_tells_its_wait(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b"))
    assert stamped(fleet) == [0]
    wait(fleet, 5000)
    answer = await fleet.pop(worker)
    [wait_ms] = answer.waits_ms
    assert 5000 <= wait_ms < 65_000
    # The worker gets the seed as it was put in, and so does whoever gets it next.
    assert [lease.seed for lease in answer.leases] == [seed("http://h/a"), seed("http://h/b")]
    assert fleet.audit().keys() == {seed("http://h/a"), seed("http://h/b")}


async def test_one_seed_in_many_tells_its_wait_however_they_come(fleet: Fleet) -> None:
    worker = await fleet.opened()
    names = [f"h{n}/x" for n in range(4 * ONE_IN)]
    await fleet.push(worker, links(*names[:300]))
    for name in names[300:]:
        await worker.exchange(links(name))
    assert stamped(fleet) == [0, *(n * ONE_IN - 1 for n in range(1, 5))]
    answer = await fleet.pop(worker, 1000)
    assert len(answer.waits_ms) == 5


async def test_children_that_no_filter_guards_are_counted_in(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    [lease] = (await fleet.pop(worker)).leases
    children = [(n % 2, seed(f"http://h/{n}")) for n in range(2 * ONE_IN)]
    await worker.exchange(acks=[Ack(lease.token, "", children)])
    # The first of each priority, and two of the 256 more.
    assert len(stamped(fleet, 0)) + len(stamped(fleet, 1)) == 4


async def test_what_is_given_back_does_not_tell_again(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    first = await fleet.pop(worker)
    await worker.give_back([lease.token for lease in first.leases])
    again = await fleet.pop(worker)
    assert (len(first.waits_ms), len(again.leases), again.waits_ms) == (1, 1, [])


async def test_a_dead_workers_seed_does_not_tell_again(fleet: Fleet) -> None:
    one, other = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a"))
    await fleet.pop(one)
    await fleet.die(one, by=other)
    answer = await fleet.pop(other)
    assert (len(answer.leases), answer.waits_ms) == (1, [])


async def test_a_seed_that_waits_for_its_host_tells_the_whole_wait(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    [lease] = (await fleet.pop(worker)).leases
    await fleet.push(worker, links("h/b"))
    assert (await fleet.pop(worker)).leases == []  # set apart
    wait(fleet, 7000)
    await worker.exchange(turns=[Turn(lease.token, 1000)])
    fleet.advance(1001)
    answer = await fleet.pop(worker)
    assert [one.seed for one in answer.leases] == [seed("http://h/b")]
    assert answer.waits_ms[0] >= 7000


async def test_the_frontier_tells_whoever_asked(fleet: Fleet) -> None:
    worker = await fleet.opened()
    told_s: list[float] = []
    worker.on_wait = told_s.append
    await fleet.push(worker, links("h/a"))
    wait(fleet, 2000)
    await fleet.pop(worker)
    assert 2 <= told_s[0] < 62


async def test_a_reply_that_was_lost_brings_the_same_seeds(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    fleet.lossy.faults = [1]
    answer: Answer = await fleet.pop(worker)
    assert [lease.seed for lease in answer.leases] == [seed("http://h/a")]


async def test_what_a_full_queue_drops_is_set_aside_as_it_was_put_in(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(max_seeds=1, drops=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    await fleet.push(worker, links("low/a", priority=-1))
    controls = Controls(fleet.redis, fleet.keys, "here")
    assert [dead.seed for dead in controls.dead()] == [seed("http://low/a").decode()]
    assert controls.peek(5) == [(0, seed("http://h/a").decode())]
    controls.revive([1], retry=True)
    assert fleet.audit().keys() == {seed("http://h/a"), seed("http://low/a")}


async def test_what_only_begins_like_a_stamp_is_handed_out_as_it_is(fleet: Fleet) -> None:
    """Somebody else may put anything into an inbox: whoever gets it sets it aside, with all of its bytes."""
    foreign = [b"\x04", b"\x04no stamp--http://h/a", b"\x04 0x123456789http://h/b"]
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    fleet.redis.rpush(fleet.keys.inbox(0), *foreign)
    fleet.redis.hincrby(
        fleet.keys.meta, "accepted", len(foreign)
    )  # so that the books, which know nothing of them, balance
    assert [unstamped(one) for one in foreign] == foreign
    answer = await fleet.pop(worker)
    assert [lease.seed for lease in answer.leases] == [seed("http://h/a"), *foreign]
    assert len(answer.waits_ms) == 1
    await worker.exchange(acks=[Ack(lease.token, "unreadable") for lease in answer.leases[1:]])
    controls = Controls(fleet.redis, fleet.keys, "Redis")
    assert sorted(dead.seed.encode() for dead in controls.dead()) == sorted(foreign)


@pytest.mark.parametrize("size_bytes", [30, 200, 10_000], ids="seeds of {} bytes".format)
async def test_the_first_stamp_of_a_list_is_found_wherever_it_is(fleet: Fleet, size_bytes: int) -> None:
    bare = [f"--http://h/{n}/".encode().ljust(size_bytes, b"x") for n in range(150)]
    assert oldest(fleet) is None
    for place in (149, 117, 64, 1):
        earlier, later = (b"\x04%011x" % ms + bare[place] for ms in (1_600_000_000_000, 1_700_000_000_123))
        fleet.redis.delete(fleet.keys.inbox(0))
        fleet.redis.rpush(fleet.keys.inbox(0), *bare[:place], later, *bare[place:], earlier)
        assert oldest(fleet) == 1_700_000_000_123
        assert oldest(fleet, seeds=place + 1) == 1_700_000_000_123
        assert oldest(fleet, seeds=place) is None
    fleet.redis.delete(fleet.keys.inbox(0))
    fleet.redis.rpush(fleet.keys.inbox(0), "", b"\x04", b"\x04no stamp", *bare)
    assert oldest(fleet) is None


async def test_no_more_of_a_list_is_looked_at_than_so_many_bytes(fleet: Fleet) -> None:
    fleet.redis.rpush(fleet.keys.inbox(0), *[b"x" * 10_000] * 20, b"\x04%011x" % 1_700_000_000_123)
    assert oldest(fleet, size_bytes=150_000) is None
    assert oldest(fleet, size_bytes=250_000) == 1_700_000_000_123
