"""Slow, blocked, crowded and ready hosts: none is fetched too fast, and none delays another."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from crawler.frontier.messages import Ack, Turn, Want
from tests.fleet import Fleet, MakeFleet, link, links, taken, urls

pytestmark = pytest.mark.every_redis


async def test_a_slow_host_delays_nobody_o5(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    worker = await fleet.opened()
    fleet.redis.hset(fleet.keys.delays, "slow", 1000)
    await fleet.push(worker, [link(f"http://slow/{n}") for n in range(1000)])
    await fleet.push(worker, [link(f"http://fast{host}/{n}") for host in range(9) for n in range(10)])
    got: list[str] = []
    while len(got) < 91:
        answer = await fleet.pop(worker, 64)
        got += urls(answer.leases)
        # There is more to look at: nobody is told to wait for the slow host.
        assert answer.leases or (answer.idle and answer.idle.wait_ms == 0)
        await fleet.complete(worker, [lease for lease in answer.leases if not lease.delay_ms])
    assert Counter(url.partition("/")[0] for url in [url.removeprefix("http://") for url in got]) == {
        "slow": 1,
        **{f"fast{host}": 10 for host in range(9)},
    }


async def test_a_host_with_a_delay_has_one_seed_out_until_its_fetch_is_reported(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a", "h/b", "other/a"))
    (a, other) = (await fleet.pop(one)).leases
    assert (a.delay_ms, other.delay_ms) == (1000, 1000)
    fleet.advance(3_600_000)
    answer = await fleet.pop(two)
    assert not answer.leases
    await one.exchange(turns=[Turn(a.token, 700)])
    answer = await fleet.pop(two)
    assert not answer.leases
    assert answer.idle
    assert 0 < answer.idle.wait_ms <= 700
    fleet.advance(701)
    assert await taken(fleet, two) == ["h/b"]
    # Acknowledging the first page does not free the host, which is the second's now.
    await fleet.push(one, links("h/c"))
    await fleet.complete(one, [a])
    fleet.advance(10_000)
    assert await taken(fleet, one) == []


@pytest.mark.parametrize("end", ["complete", "set aside", "give back", "leave", "die"])
async def test_a_lease_that_ends_without_a_report_frees_its_host_after_the_delay(
    make_fleet: MakeFleet, end: str
) -> None:
    fleet = make_fleet(delay_ms=1000)
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a", "h/b"))
    (lease,) = (await fleet.pop(one)).leases
    match end:
        case "complete":
            await one.exchange(acks=[Ack(lease.token)])
        case "set aside":
            await one.exchange(acks=[Ack(lease.token, "it can't be read")])
        case "give back":
            await one.give_back([lease.token])
        case "leave":
            await one.leave()
        case "die":
            await fleet.die(one, by=two)
    assert await taken(fleet, two) == []
    fleet.advance(1001)
    assert await taken(fleet, two) == [{"complete": "h/b", "set aside": "h/b"}.get(end, "h/a")]


async def test_what_becomes_of_a_reported_page_does_not_touch_its_host(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a", "h/b", "h/c"))
    (a,) = (await fleet.pop(one)).leases
    await one.exchange(turns=[Turn(a.token, 0)])
    assert await taken(fleet, two) == ["h/b"]
    await fleet.die(one, by=two)  # it parsed a, while two fetches b
    fleet.advance(5000)
    assert await taken(fleet, await fleet.opened()) == []


async def test_retry_after_pushes_the_turn_back_for_all_and_is_never_shortened(fleet: Fleet) -> None:
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, links("h/a", "h/b", "h/c", "other/a"))
    a, b = (await fleet.pop(one, 2)).leases
    await one.exchange(turns=[Turn(a.token, 60_000), Turn(b.token, 1000)])
    assert await taken(fleet, two) == ["other/a"]
    fleet.advance(59_000)
    assert await taken(fleet, two) == []
    fleet.advance(1001)
    assert await taken(fleet, two) == ["h/c"]


async def test_a_host_that_must_wait_again_is_not_served_from_its_other_priorities(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    (a,) = (await fleet.pop(worker)).leases
    await fleet.push(worker, links("h/b", priority=2) + links("h/c", priority=1) + links("h/d", priority=0))
    await fleet.pop(worker)
    await worker.exchange(turns=[Turn(a.token, 0)])
    for name in ("h/b", "h/c", "h/d"):
        (lease,) = (await fleet.pop(worker)).leases
        assert urls([lease]) == [f"http://{name}"]
        assert await taken(fleet, worker) == []
        await worker.exchange(turns=[Turn(lease.token, 1000)])
        assert await taken(fleet, worker) == []
        fleet.advance(1001)


async def test_a_blocked_host_stays_blocked_whatever_happens_to_its_leases(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000)
    one, two, three = [await fleet.opened() for _ in range(3)]
    await fleet.push(one, links("h/a", "i/a", "j/a", "h/b", "i/b", "j/b"))
    await fleet.push(one, [link("http://free/a")])
    (h,) = (await fleet.pop(one, 1)).leases
    await fleet.pop(two, 1)
    (j,) = (await fleet.pop(three, 1)).leases
    fleet.redis.zadd(fleet.keys.busy, {"h": "inf", "i": "inf", "j": "inf"})
    await one.exchange(acks=[Ack(h.token)], turns=[Turn(h.token, 0)])
    await fleet.die(two, by=one)
    await three.give_back([j.token])
    fleet.advance(3_600_000)
    answer = await fleet.pop(one)
    assert urls(answer.leases) == ["http://free/a"]
    answer = await fleet.pop(three)
    assert answer.idle
    assert answer.idle.wait_ms > 3_600_000  # the day that a fetch may take: a block is no turn to wait for
    fleet.redis.zadd(fleet.keys.busy, {"h": 0})
    assert await taken(fleet, three) == ["h/b"]


async def test_a_host_is_blocked_while_its_parked_seeds_are_ready(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "h/c"))
    await fleet.pop(worker, per_host=1)
    assert fleet.status().parked == 2
    fleet.redis.zadd(fleet.keys.busy, {"h": "inf"})
    assert await taken(fleet, worker) == []
    fleet.redis.zadd(fleet.keys.busy, {"h": 0})
    assert await taken(fleet, worker) == ["h/b", "h/c"]


async def test_a_worker_takes_no_more_of_a_host_than_it_asked_for(fleet: Fleet) -> None:
    one, two = await fleet.opened(), await fleet.opened()
    await fleet.push(one, [link(f"http://big/{n}") for n in range(10)] + links("small/1", "small/2"))
    first = (await fleet.pop(one, 8, per_host=4)).leases
    assert [url.removeprefix("http://") for url in urls(first)] == [
        "big/0",
        "big/1",
        "big/2",
        "big/3",
        "small/1",
        "small/2",
    ]
    assert await taken(fleet, one, 8, per_host=4, held=first) == []
    # What one has enough of, the other may take, in order.
    assert await taken(fleet, two, 8, per_host=4) == ["big/4", "big/5", "big/6", "big/7"]
    await fleet.complete(one, first[:3])
    await fleet.push(one, links("big/10"))
    assert await taken(fleet, one, 8, per_host=4, held=first[3:]) == ["big/8", "big/9", "big/10"]


async def test_ready_hosts_take_turns(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, [link(f"http://{host}/{n}") for host in "abc" for n in range(6)] + links("d/0"))
    held = (await fleet.pop(worker, 4, per_host=1)).leases
    assert [url[7] for url in urls(held)] == ["a", "b", "c", "d"]
    got = []
    for _ in range(15):
        got += await taken(fleet, worker, 1)
        await asyncio.sleep(0.002)  # the order of hosts is by the millisecond
    for host in "abc":
        assert [url for url in got if url[0] == host] == [f"{host}/{n}" for n in range(1, 6)]
    assert all(len({url[0] for url in got[n : n + 3]}) == 3 for n in range(0, 15, 3))


async def test_a_call_shares_itself_among_the_ready_hosts(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, [link(f"http://{host}/{n}") for host in "abc" for n in range(20)] + links("d/0"))
    assert len((await fleet.pop(worker, 4, per_host=1)).leases) == 4
    assert Counter(url[0] for url in await taken(fleet, worker, 30)) == {"a": 10, "b": 10, "c": 10}
    assert Counter(url[0] for url in await taken(fleet, worker, 100)) == {"a": 9, "b": 9, "c": 9}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Shop.Example:8080/a", "shop.example"),
        ("http://user:p@ss@shop.example/", "shop.example"),
        ("http://[::1]:8000/a", "::1"),
        ("https://shop.example?q=http://other/", "shop.example"),
        ("http://shop.example#http://other/", "shop.example"),
        ("http://shop.example\x01\x81http://other/", "shop.example"),
        ("http://shop.example\x02\x05", "shop.example"),
        ("data:,hello", ""),
    ],
)
async def test_the_host_of_a_seed_is_its_download_slot(make_fleet: MakeFleet, url: str, host: str) -> None:
    fleet = make_fleet(delay_ms=1000)
    worker = await fleet.opened()
    await fleet.push(worker, [link(url)])
    await fleet.pop(worker)
    assert fleet.redis.zrange(fleet.keys.busy, 0, -1) == [host.encode()]


async def test_the_cost_of_a_call_does_not_grow_with_the_queue(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(delay_ms=1000, scan=50)
    worker = await fleet.opened()

    async def commands() -> int:
        fleet.redis.config_resetstat()
        answer = await worker.exchange(want=Want(5, 5, {}, started=True))
        await worker.exchange(acks=[Ack(lease.token) for lease in answer.leases])
        return sum(int(of["calls"]) for of in fleet.redis.info("commandstats").values())

    async def push(first: int, last: int) -> None:
        for at in range(first, last, 500):
            await worker.exchange([link(f"http://h{n % 40}/{n}") for n in range(at, min(at + 500, last))])

    await push(0, 200)
    few = [await commands() for _ in range(10)]
    await push(200, 20_000)
    many = [await commands() for _ in range(10)]
    assert max(many) <= 1.2 * max(few)


async def test_a_ready_host_with_older_seeds_gives_its_newer_ones_in_the_same_call(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", "i/a"))
    assert await taken(fleet, worker, 2, per_host=1) == ["h/a", "i/a"]
    await fleet.push(worker, links("h/c", "i/b") + links("h/high", priority=1))
    assert await taken(fleet, worker) == ["h/high", "h/b", "h/c", "i/b"]
    await fleet.push(worker, links("h/d"))
    assert await taken(fleet, worker) == ["h/d"]
