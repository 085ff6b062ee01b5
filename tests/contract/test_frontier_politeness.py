"""A crawl of many hosts in slow motion: no host is fetched too fast, and all comes in order."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import Ack, Lease, Link, Turn, Want
from tests.fleet import MakeFleet, link, urls

pytestmark = pytest.mark.every_redis


class Site:
    """Play hosts that notice when they are fetched too fast, and look at what is handed out, and when."""

    def __init__(self, delay_ms: int, queued: list[Link]) -> None:
        self.delay_ms = delay_ms
        self.now_ms = 0
        self.free_at: dict[str, float] = {}
        self.waiting: dict[str, Counter[int]] = {}
        self.order: dict[tuple[str, int], list[str]] = {}
        for one in queued:
            (url,) = urls([Lease("", 0, 0, one.seed)])
            host = url.split("/")[2]
            self.waiting.setdefault(host, Counter())[one.priority] += 1
            self.order.setdefault((host, one.priority), []).append(url)

    def hand_out(self, leases: list[Lease]) -> None:
        """Note what a pop gave; assert politeness, order, and that nothing of higher priority could have come."""
        for lease in leases:
            (url,) = urls([lease])
            host = url.split("/")[2]
            assert self.free_at.get(host, 0) <= self.now_ms + self.delay_ms / 50, f"{host} was fetched too early"
            assert self.order[host, lease.priority].pop(0) == url
            self.free_at[host] = float("inf")
            self.waiting[host][lease.priority] -= 1
        lowest = min((lease.priority for lease in leases), default=None)
        if lowest is not None:
            for host, levels in self.waiting.items():
                if self.free_at.get(host, 0) < self.now_ms - self.delay_ms / 50:
                    assert max(+levels, default=lowest) <= lowest, f"{host} had a seed of higher priority"

    def fetched(self, lease: Lease, took_ms: int) -> int:
        """Note the end of a fetch that began *took_ms* ago; return the wait to report."""
        wait_ms = max(self.delay_ms - took_ms, 0)
        self.free_at[urls([lease])[0].split("/")[2]] = self.now_ms + wait_ms
        return wait_ms


async def test_no_host_is_ever_fetched_too_fast(make_fleet: MakeFleet) -> None:
    """A crawl in slow motion, so that the real time that it takes does not count: a second is 2,000 s."""
    second_ms = 2_000_000
    fleet = make_fleet(delay_ms=second_ms, scan=64, lease_ms=10**12)
    rng = random.Random(7)
    names = ["huge"] * 120 + [f"small{n}" for n in range(150) for _ in range(2)]
    rng.shuffle(names)
    queued = [link(f"http://{name}/{n}", priority=rng.choice([-1, 0, 0, 0, 3])) for n, name in enumerate(names)]
    site = Site(second_ms, queued)
    workers = [await fleet.opened() for _ in range(3)]
    for first in range(0, len(queued), 100):
        await workers[0].exchange(queued[first : first + 100])
    # What the workers hold: (when its fetch ends, how long it took, the lease).
    under_way: list[tuple[int, int, Lease, Frontier]] = []
    left, most_keys = len(queued), 0
    while left:
        for worker in workers:
            mine = [entry for entry in under_way if entry[3] is worker]
            over = [entry for entry in mine if entry[0] <= site.now_ms]
            under_way = [entry for entry in under_way if entry not in over]
            acks = [Ack(lease.token) for _, _, lease, _ in over]
            turns = [Turn(lease.token, site.fetched(lease, took_ms)) for _, took_ms, lease, _ in over]
            want = Want(max(12 - len(mine) + len(over), 0), 12, {}, started=True)
            answer = await worker.exchange(acks=acks, turns=turns, want=want if want.seeds else None)
            left -= len(over)
            site.hand_out(answer.leases)
            for lease in answer.leases:
                took_ms = rng.choice([second_ms // 5, second_ms // 2, 3 * second_ms])
                under_way.append((site.now_ms + took_ms, took_ms, lease, worker))
        if left % 40 == 0:
            fleet.audit()
            most_keys = max(most_keys, fleet.redis.dbsize())
        site.now_ms += second_ms // 5
        fleet.advance(second_ms // 5)
    assert fleet.audit() == Counter()
    assert fleet.status().done == len(queued)
    assert most_keys < 400
