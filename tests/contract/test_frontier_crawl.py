"""The crawl as a whole: its beginning, pause and end, and whose frontier it is."""

from __future__ import annotations

import itertools

import pytest

from crawler.errors import ConfigError, FrontierError
from crawler.frontier.dedup import Dedup
from crawler.frontier.frontier import Frontier
from crawler.frontier.keys import SPIDERS, Keys
from crawler.frontier.messages import START, Ack
from tests.fleet import Fleet, MakeFleet, link, links, taken

pytestmark = pytest.mark.every_redis


async def test_a_paused_frontier_hands_out_nothing_and_is_not_complete(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    fleet.redis.hset(fleet.keys.meta, "state", "paused")
    answer = await fleet.pop(worker)
    assert (answer.state, answer.leases) == ("paused", [])
    fleet.redis.hset(fleet.keys.meta, "state", "running")
    await fleet.complete(worker, (await fleet.pop(worker)).leases)
    fleet.redis.hset(fleet.keys.meta, "state", "paused")
    assert not await worker.finish(1)
    fleet.redis.hset(fleet.keys.meta, "state", "running")
    assert await worker.finish(1)


async def test_the_crawl_is_complete_only_when_nothing_is_left_for_anybody_i2(fleet: Fleet) -> None:
    one, two = fleet.worker(), fleet.worker()
    await one.open(begin=True, starting=True)
    await two.open(begin=True, starting=True)
    start = link("http://h/", kind=START)
    await fleet.push(one, [start])
    (lease,) = (await fleet.pop(one)).leases  # one has given its start requests

    async def idle() -> tuple[bool, bool]:
        answer = await fleet.pop(two)
        assert answer.idle
        assert answer.idle.is_complete == await two.finish(1)
        return answer.idle.starting > 0, answer.idle.leased > 0

    assert not await two.finish(1)  # two is starting, and one works
    assert await idle() == (False, True)
    await one.exchange([link("http://h/child")], [Ack(lease.token)])
    assert not await two.finish(1)
    (child,) = (await fleet.pop(two)).leases
    await two.exchange(acks=[Ack(child.token)])
    generation = (await fleet.pop(two)).generation
    assert await idle() == (False, False)
    assert fleet.status().state == "complete"
    assert await one.finish(1)
    assert (await fleet.pop(one)).generation == generation + 1  # what was seen is forgotten, once


async def test_a_new_crawl_begins_anew_i6(fleet: Fleet) -> None:
    worker = await fleet.opened()
    start = link("http://h/", kind=START)
    await fleet.push(worker, [start])
    await fleet.complete(worker, (await fleet.pop(worker)).leases)
    await worker.leave()
    # Not complete: a worker that comes goes on with the crawl.
    again = fleet.worker()
    opened = await again.open(begin=True, starting=False)
    assert opened.epoch == 1
    assert (await fleet.push(again, [start])).accepted == 0
    assert await again.finish(1)
    # Complete: one that comes begins another one, and those that still finish the old one are not misled.
    late = fleet.worker()
    later = await late.open(begin=True, starting=False)
    assert (later.epoch, later.crawl_id != opened.crawl_id) == (2, True)
    assert (await late.exchange([start])).accepted == 1
    assert await again.finish(1)
    assert fleet.status().state == "running"
    assert not await late.finish(2)


async def test_seeds_that_come_after_the_end_begin_the_next_crawl(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    await fleet.complete(worker, (await fleet.pop(worker)).leases)
    assert await worker.finish(1)
    await fleet.push(worker, links("h/late"))
    await fleet.push(worker, links("h/late"))
    status = fleet.status()
    assert (status.state, status.epoch, status.queued) == ("running", 2, 1)
    assert await worker.finish(1)  # its own crawl is over
    assert fleet.status().state == "running"
    # Who is there takes them all the same; and who comes now takes part.
    assert await taken(fleet, worker) == ["h/late"]
    await worker.leave()
    another = fleet.worker()
    assert (await another.open(begin=True, starting=False)).epoch == 2
    await fleet.complete(another, (await fleet.pop(another)).leases)
    assert not (await fleet.push(another, links("h/late"))).accepted
    assert await worker.finish(1)
    assert fleet.status().state == "complete"


async def test_links_that_are_all_seen_begin_no_crawl(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(keep_seen=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    await fleet.complete(worker, (await fleet.pop(worker)).leases)
    assert await worker.finish(1)
    assert (await fleet.push(worker, links("h/a"))).filtered == 1
    assert fleet.status().state == "complete"


async def test_what_was_seen_may_be_kept(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(keep_seen=True)
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    await fleet.complete(worker, (await fleet.pop(worker)).leases)
    assert await worker.finish(1)
    assert (await fleet.push(worker, links("h/a"))).filtered == 1


async def test_a_frontier_of_another_project_is_refused_k7(fleet: Fleet) -> None:
    await fleet.opened()
    other = fleet.worker(project="other")
    with pytest.raises(ConfigError, match=r"FRONTIER_NAMESPACE.*belongs to the project 'project', this is 'other'"):
        await other.open(begin=True, starting=True)
    fleet.audit()
    theirs = fleet.worker(project="other")
    line = theirs.line
    mine = Frontier(line.clients, Keys.of("spider", "other"), theirs.worker, theirs.rules, line.where)
    await mine.open(begin=True, starting=True)
    assert fleet.redis.smembers(SPIDERS) == {b"spider", b"other/spider"}


async def test_another_dedup_than_the_frontier_has_is_refused_in_words(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a"))
    other = fleet.worker(dedup=Dedup("bloom", 1000, 0.001))
    with pytest.raises(FrontierError, match='was made for "exact" and can\'t serve "bloom'):
        await other.open(begin=True, starting=True)
    fleet.audit()


async def test_a_foreign_key_in_the_dedups_place_is_refused_in_words_k3(fleet: Fleet) -> None:
    fleet.redis.set(fleet.keys.seen, "something else")
    with pytest.raises(FrontierError, match=r"seen holds a string of which .*meta says nothing"):
        await fleet.opened()


@pytest.mark.parametrize("dedup", ["bloom", "bitmap", "exact", "off"])
async def test_each_dedup_under_the_verbs(make_fleet: MakeFleet, dedup: str) -> None:
    fleet = make_fleet(dedup=dedup)
    worker = await fleet.opened()
    found = [link(f"http://h/{n}") for n in range(300)]
    await fleet.push(worker, found)
    again = 300 if dedup == "off" else 0
    assert (await fleet.push(worker, found)).accepted == again
    while leases := (await fleet.pop(worker)).leases:
        await fleet.complete(worker, leases)
    assert await worker.finish(1)
    assert (await fleet.push(worker, found)).accepted == 300
    assert all(not key.startswith(fleet.keys.seen.encode()) for key in fleet.redis.scan_iter()) == (dedup == "off")


async def test_every_key_of_a_spider_carries_its_tag(fleet: Fleet) -> None:
    worker = await fleet.opened()
    await fleet.push(worker, links("h/a", "h/b", priority=-3))
    await fleet.pop(worker, per_host=1)
    assert all(key.startswith(b"{spider}:") for key in fleet.redis.scan_iter() if key != SPIDERS.encode())


def test_no_two_keys_are_alike() -> None:
    keys = Keys.of("spider")
    names = [getattr(keys, name) for name in vars(Keys) if isinstance(vars(Keys)[name], property)]
    names += [keys.inbox(1), keys.host(1, "h"), keys.ready(1), keys.session("w"), keys.leases("w"), keys.bitmap(0, 0)]
    assert len(set(names)) == len(names)
    assert all(a == b or not a.startswith(b + ":") for a, b in itertools.product(names, names) if b != keys.seen)
