"""The frontier's state machine: any steps in any order, and after each one every seed is where it must be.

Workers crawl a small web of which it is known what there is to find. They lose replies, die, freeze and come back;
Redis falls back to what it held before. Whatever happens: the books balance, what a worker holds is what the server
says it holds, seeds of one host and priority keep their order, nothing that could be fetched waits behind something of
lower priority; and in the end each page of the web was accepted once, and done.

MODEL_EXAMPLES=2000 runs it for longer, and with other examples each time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Coroutine, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from crawler import outbox
from crawler.frontier import line
from crawler.frontier.calls import Call, read_answers
from crawler.frontier.controls import Controls
from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import START, Ack, Lease, Link, Turn, Want
from tests.fleet import Fleet, host_of
from tests.small_crawl import Web, Worker

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "0"))

T = TypeVar("T")

WEB = Web(40)
SEEDS = WEB.seeds()
DELAY_MS = 1_000_000

Queue = dict[tuple[str, int], list[bytes]]
#: How far a worker had come, whether the server knew its session, and whether a late pop had been there.
Session = tuple[tuple[int, int], bool, bool]


@dataclass
class Books:
    """Hold what the server must hold now; a rollback takes it back."""

    queues: Queue = field(default_factory=dict)
    suspects: list[bytes] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    starts: set[bytes] = field(default_factory=set)
    #: What the counters said when the present crawl began.
    accepted_before: int = 0
    done_before: int = 0
    #: Somebody removed seeds: this crawl won't be whole.
    cleared: bool = False


class Watched(Worker):
    """A worker of which the model knows what the server should know."""

    def __init__(self, frontier: Frontier, web: Web) -> None:
        super().__init__(frontier, web)
        #: The server knows its session, as it is.
        self.in_sync = True
        #: A lease may have been taken from it while its session lives on.
        self.robbed = False
        #: A pop that it knows nothing of was applied.
        self.haunted = False

    @property
    def calls(self) -> tuple[int, int]:
        """Tell how far it has come; what the server does to its session is no call of its own."""
        return self.opens, self.frontier.seq

    async def reopen(self, unsent: list[Link]) -> None:
        await super().reopen(unsent)
        self.in_sync, self.robbed, self.haunted = True, False, False


class FrontierModel(RuleBasedStateMachine):
    """Play with a frontier; see the module's docstring."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.books = Books()
        self.workers: list[Watched] = []
        self.snapshots: list[tuple[dict[bytes, bytes], Books, dict[str, Session]]] = []

    def teardown(self) -> None:
        try:
            if hasattr(self, "fleet") and sys.exception() is None:
                self.drain()
        finally:
            if hasattr(self, "fleet"):
                self.run(self.fleet.close())
            self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    @initialize(lifo=st.booleans(), delay_ms=st.sampled_from([0, 0, DELAY_MS]))
    def set_up(self, lifo: bool, delay_ms: int) -> None:
        self.fleet = Fleet(self.url, lifo=lifo, delay_ms=delay_ms, scan=10_000, lease_ms=10**9)
        self.fleet.redis.flushall()
        self.lifo, self.delay_ms = lifo, delay_ms
        self.controls = Controls(self.fleet.redis, self.fleet.keys, "here")
        self.start_worker()

    # -- what workers do

    def worker(self, number: int) -> Watched:
        return self.workers[number % len(self.workers)]

    @precondition(lambda self: len(self.workers) < 4)
    @rule()
    def start_worker(self) -> None:
        worker = Watched(self.fleet.worker(), WEB)
        self.run(worker.open())
        self.workers.append(worker)

    def begin_crawl(self) -> None:
        status = self.fleet.status()
        waiting = sum(map(len, self.books.queues.values())) + len(self.books.suspects)
        self.books.accepted_before = status.accepted - waiting - status.leased
        self.books.done_before = status.done + status.dead

    @rule(number=st.integers(0, 3), count=st.integers(1, 6))
    def crawl(self, number: int, count: int) -> None:
        """Go on as a crawl mostly does: take, fetch, and report."""
        worker = self.worker(number)
        self.run(self.exchange(worker, want=count))
        worker.begin(count)
        worker.finish(count)
        self.run(self.exchange(worker, want=1))

    @rule(number=st.integers(0, 3), count=st.integers(1, 6))
    def begin_pages(self, number: int, count: int) -> None:
        self.worker(number).begin(count)

    @rule(number=st.integers(0, 3), count=st.integers(1, 6))
    def finish_pages(self, number: int, count: int) -> None:
        self.worker(number).finish(count)

    @rule(
        number=st.integers(0, 3),
        limit=st.sampled_from([0, 1, 3, 100]),
        want=st.sampled_from([0, 1, 2, 5, 20]),
        per_host=st.sampled_from([1, 2, 100]),
        faults=st.lists(st.integers(0, 3), max_size=3),
        flush=st.sampled_from([False, False, False, True]),
    )
    def talk(self, number: int, limit: int, want: int, per_host: int, faults: list[int], flush: bool) -> None:
        if flush:
            self.fleet.redis.script_flush()
        self.fleet.lossy.faults = [*faults]
        self.run(self.exchange(self.worker(number), limit, want, per_host))
        self.fleet.lossy.faults = []

    async def exchange(self, worker: Watched, limit: int = 100, want: int = 0, per_host: int = 100) -> None:
        held = Counter(host_of(lease.seed) for lease in worker.ahead.values())
        known = self.leases_of(worker)
        links, acks, turns, answer = await worker.say(limit, want, per_host)
        if not (links or acks or turns or want):
            return
        surprised = worker.haunted and bool(links or acks or turns)
        assert answer.lost == (surprised or not worker.in_sync)
        if answer.lost:
            await self.reopen(worker, links)
            return
        self.note_links(links)
        self.note_acks(acks, known)
        if answer.leases and not worker.haunted:
            self.note_leases(answer.leases)
            self.check_order(answer.leases, want, per_host, held)
        worker.haunted = worker.haunted and not answer.leases

    async def reopen(self, worker: Watched, links: list[Link]) -> None:
        self.note_given_back(worker, self.leases_of(worker).keys() - worker.ahead.keys())
        await worker.reopen(links)

    @rule(number=st.integers(0, 3), faults=st.lists(st.integers(0, 1), max_size=2), every=st.integers(1, 3))
    def give_back(self, number: int, faults: list[int], every: int) -> None:
        worker = self.worker(number)
        tokens = list(worker.ahead)[::every]
        if worker.haunted:
            return
        self.fleet.lossy.faults = [*faults]
        known = self.leases_of(worker)
        given = self.run(worker.frontier.give_back(tokens))
        self.fleet.lossy.faults = []
        if worker.in_sync:
            assert faults or given == len(known.keys() & set(tokens))
            self.note_given_back(worker, known.keys() & set(tokens), known)
            for token in tokens:
                del worker.ahead[token]

    @precondition(lambda self: len(self.workers) > 1)
    @rule(number=st.integers(0, 3), faults=st.lists(st.integers(0, 1), max_size=2))
    def leave(self, number: int, faults: list[int]) -> None:
        worker = self.worker(number)
        self.run(self.settle(worker))
        self.note_given_back(worker, self.leases_of(worker).keys())
        self.fleet.lossy.faults = [*faults]
        self.run(worker.frontier.leave())
        self.fleet.lossy.faults = []
        self.workers.remove(worker)
        assert worker.frontier.worker not in self.fleet.status().workers

    async def settle(self, worker: Watched) -> None:
        """Say all that there is to say, as a clean stop does."""
        while worker.outbox or worker.turns or not worker.in_sync or worker.haunted:
            worker.turns.append(Turn("", 0))
            await self.exchange(worker)

    @precondition(lambda self: len(self.workers) > 1)
    @rule(number=st.integers(0, 3))
    def die(self, number: int) -> None:
        self.workers.remove(self.worker(number))

    @rule(number=st.integers(0, 3), other=st.integers(0, 3), reached=st.integers(0, 2), what=st.integers(0, 2))
    def race(self, number: int, other: int, reached: int, what: int) -> None:
        """Let something happen in the midst of an exchange."""
        one, two = self.worker(number), self.worker(other)

        async def talk(worker: Watched, want: int) -> None:
            links, _, _, answer = await worker.say(want=want)
            if answer.lost:
                await worker.reopen(links)

        async def happens() -> None:
            if one is not two and what == 0:
                await talk(two, want=5)
            elif what == 1:
                self.fleet.expire(one.frontier)
                await two.frontier.reclaim()
            else:
                self.fleet.redis.script_flush()

        if one.haunted or two.haunted:
            return
        self.fleet.lossy.faults, self.fleet.lossy.meanwhile = [reached], happens
        self.run(talk(one, want=3))
        self.fleet.lossy.faults, self.fleet.lossy.meanwhile = [], None
        self.look()

    @rule(number=st.integers(0, 3))
    def pop_late(self, number: int) -> None:
        """A pop that was given up long ago arrives; the worker has heard since that there was nothing."""
        worker = self.worker(number)
        one = worker.frontier
        call = one.calls.pop(one.number(), Want(2, 100, {}, started=True))
        leases = read_answers([call], self.run(one.line.many([call]))).leases
        if worker.in_sync and not worker.haunted and leases:
            worker.haunted = True
            self.note_leases(leases)

    # -- time, death and Redis

    @rule()
    def pass_time(self) -> None:
        self.fleet.advance(DELAY_MS + 10_000)

    @rule(number=st.integers(0, 5))
    def expire(self, number: int) -> None:
        known = sorted(self.fleet.status().workers) or ["nobody"]
        self.fleet.redis.zadd(self.fleet.keys.workers, {known[number % len(known)]: 1}, xx=True)

    @rule(number=st.integers(0, 3))
    def extend(self, number: int) -> None:
        one = self.worker(number).frontier
        alive = self.run(one.run(Call("extend", [self.fleet.keys.workers], [one.worker, one.rules.lease_ms])))
        assert bool(alive) == (one.worker in self.fleet.status().workers)

    @rule(number=st.integers(0, 3), limit=st.sampled_from([1, 3, 1000]), faults=st.lists(st.integers(0, 1), max_size=1))
    def reclaim(self, number: int, limit: int, faults: list[int]) -> None:
        before = self.all_leases()
        self.fleet.lossy.faults = [*faults]
        self.run(self.worker(number).frontier.reclaim(limit))
        self.fleet.lossy.faults = []
        taken = Counter(before) - Counter(self.all_leases())
        assert faults or sum(taken.values()) <= limit
        self.note_deaths()
        self.look_for_sessions()

    @rule()
    def take_snapshot(self) -> None:
        sessions = {worker.frontier.worker: (worker.calls, worker.in_sync, worker.haunted) for worker in self.workers}
        self.snapshots.append((self.fleet.snapshot(), deepcopy(self.books), sessions))

    @precondition(lambda self: self.snapshots)
    @rule(number=st.integers(0, 9))
    def roll_back(self, number: int) -> None:
        """Restart Redis with a prefix of its history: what came after the snapshot never was."""
        number %= len(self.snapshots)
        snapshot, books, sessions = self.snapshots[number]
        del self.snapshots[number + 1 :]
        self.fleet.roll_back(snapshot)
        self.books = deepcopy(books)
        for worker in self.workers:
            calls, in_sync, haunted = sessions.get(worker.frontier.worker, ((-1, -1), False, False))
            # A late pop counts with the server; it may be that the worker has heard of it since.
            opens, seq = calls
            worker.haunted = in_sync and haunted and worker.calls == calls
            worker.in_sync = worker.haunted or (in_sync and worker.calls == (opens, seq + haunted))
        self.look_for_sessions()

    def look_for_sessions(self) -> None:
        """Note who lost its session or, as its leases are taken bit by bit, some of them."""
        alive = self.fleet.status().workers
        for worker in self.workers:
            if worker.frontier.worker not in alive:
                worker.in_sync, worker.haunted = False, False
            elif worker.in_sync:
                worker.robbed |= not worker.tokens <= self.leases_of(worker).keys()

    # -- what an operator does

    @rule(host=st.integers(0, WEB.hosts - 1), blocked=st.booleans())
    def block(self, host: int, blocked: bool) -> None:
        if blocked:
            self.controls.block(f"h{host}")
        else:
            self.controls.unblock(f"h{host}")

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        if paused:
            self.controls.pause()
        else:
            self.controls.resume()

    @rule(forget=st.booleans())
    @precondition(lambda self: self.fleet.status().queued > 5)
    def clear(self, forget: bool) -> None:
        queued = self.fleet.status().queued
        assert self.controls.clear(forget=forget) == queued
        self.books.queues.clear()
        self.books.suspects.clear()
        self.books.cleared = True
        if forget:
            self.books.seen.clear()
            self.books.starts.clear()

    @rule(number=st.integers(0, 3), epoch=st.integers(0, 2))
    def finish(self, number: int, epoch: int) -> None:
        before = self.fleet.status()
        finished = self.run(self.worker(number).frontier.finish(epoch))
        is_over = before.state != "paused" and before.is_complete
        assert finished == (before.epoch > epoch or is_over)
        if is_over and before.state == "running":
            self.books = Books()
            self.begin_crawl()

    # -- what must be so

    def leases_of(self, worker: Watched) -> dict[str, bytes]:
        raw = self.fleet.redis.hgetall(self.fleet.keys.leases(worker.frontier.worker))
        return {token.decode(): text for token, text in raw.items()}

    def all_leases(self) -> list[tuple[bytes, bytes]]:
        keys = self.fleet.redis.scan_iter(match=self.fleet.keys.leases("*"), count=1000)
        return [(key, token) for key in keys for token in self.fleet.redis.hkeys(key)]

    def note_links(self, links: Iterable[Link]) -> None:
        for priority, fingerprint, kind, one in links:
            known = self.books.starts if kind == START else self.books.seen
            if fingerprint not in known:
                self.enqueue(priority, one)
            self.books.seen.add(fingerprint)
            if kind == START:
                self.books.starts.add(fingerprint)

    def enqueue(self, priority: int, one: bytes) -> None:
        queue = self.books.queues.setdefault((host_of(one), priority), [])
        queue.insert(0 if self.lifo else len(queue), one)

    def note_acks(self, acks: Iterable[Ack], known: dict[str, bytes]) -> None:
        for token, _, children in acks:
            if token in known:
                for priority, one in children:
                    self.enqueue(priority, one)

    def note_leases(self, leases: Iterable[Lease]) -> None:
        """Take what was handed out from the queue's front, or from the suspects."""
        for lease in leases:
            if self.books.suspects:
                waiting = self.fleet.redis.llen(self.fleet.keys.suspects)
                if waiting < len(self.books.suspects):
                    assert len(list(leases)) == 1
                    self.books.suspects.remove(lease.seed)
                    return
            assert self.books.queues[host_of(lease.seed), lease.priority].pop(0) == lease.seed

    def note_given_back(self, worker: Watched, tokens: Iterable[str], known: dict[str, bytes] | None = None) -> None:
        known = self.leases_of(worker) if known is None else known
        for token in sorted(tokens, key=lambda token: [int(part) for part in token.split(":")], reverse=True):
            priority, _, alone, _, one = known[token].split(b" ", 4)
            if alone == b"1":
                self.books.suspects.append(one)
            else:
                self.books.queues.setdefault((host_of(one), int(priority)), []).insert(0, one)

    def note_deaths(self) -> None:
        texts = self.fleet.redis.lrange(self.fleet.keys.suspects, 0, -1)
        self.books.suspects = [text.split(b" ", 4)[4] for text in texts]

    def check_order(self, leases: list[Lease], want: int, per_host: int, held: Counter[str]) -> None:
        """Assert that nothing that could have been handed out is of higher priority than what was."""
        assert [lease.priority for lease in leases] == sorted((lease.priority for lease in leases), reverse=True)
        if self.fleet.redis.llen(self.fleet.keys.suspects) or self.fleet.redis.hexists(self.fleet.keys.meta, "tester"):
            return
        held = held + Counter(host_of(lease.seed) for lease in leases)
        now_ms = self.fleet.status().now_ms
        waiting = {host.decode() for host in self.fleet.redis.zrangebyscore(self.fleet.keys.busy, now_ms, "inf")}
        could = [
            priority
            for (host, priority), queue in self.books.queues.items()
            if queue and host not in waiting and held[host] < per_host
        ]
        assert max(could, default=-9) <= (leases[-1].priority if len(leases) == want else -9)

    def actual_queues(self) -> Queue:
        keys, client = self.fleet.keys, self.fleet.redis
        queues: Queue = {}
        for part in ("host", "inbox"):
            for name in sorted(client.scan_iter(match=keys(part + ":*"), count=1000)):
                priority = int(name.decode().removeprefix(keys(part + ":")).split(":")[0])
                for one in self.fleet.queued_in(name.decode()):
                    queues.setdefault((host_of(one), priority), []).append(one)
        return queues

    def look(self) -> None:
        """Learn from the server what is there, after steps whose order can't be known."""
        self.books.queues = self.actual_queues()
        self.books.seen = self.fleet.redis.smembers(self.fleet.keys.seen)
        self.books.starts = self.fleet.redis.smembers(self.fleet.keys.starts)
        self.note_deaths()
        self.look_for_sessions()

    @invariant()
    def every_seed_is_in_one_place(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.fleet.audit()
        expected = {key: queue for key, queue in self.books.queues.items() if queue}
        assert self.actual_queues() == expected, f"{self.actual_queues()}\nwhere there should be\n{expected}"
        texts = self.fleet.redis.lrange(self.fleet.keys.suspects, 0, -1)
        assert Counter(text.split(b" ", 4)[4] for text in texts) == Counter(self.books.suspects)
        for worker in self.workers:
            if worker.in_sync and not worker.haunted:
                tokens = set(self.leases_of(worker))
                assert tokens <= worker.tokens, "a lease that nobody knows of"
                assert worker.robbed or tokens == worker.tokens

    # -- the end

    def drain(self) -> None:
        """Crawl to the end with one new worker, all others dead, and find that nothing is missing."""
        note("drain")
        for host in range(WEB.hosts):
            self.controls.unblock(f"h{host}")
        self.controls.resume()
        self.workers.clear()
        self.start_worker()
        (worker,) = self.workers
        others = set(self.fleet.status().workers) - {worker.frontier.worker}
        if others:
            self.fleet.redis.zadd(self.fleet.keys.workers, dict.fromkeys(others, 1))
        for _ in range(10 * WEB.pages):
            self.run(self.exchange(worker, want=50))
            self.run(worker.frontier.reclaim())
            self.note_deaths()
            worker.begin(100)
            worker.finish(100)
            self.fleet.advance(DELAY_MS + 10_000)
            killed = [dead.number for dead in self.controls.dead() if "died" in dead.reason]
            self.controls.revive(killed, retry=True)
            self.look()
            self.every_seed_is_in_one_place()
            if not worker.has_more_to_say and self.fleet.status().queued == 0:
                break
        self.run(self.settle(worker))
        status = self.fleet.status()
        assert (status.queued, status.leased) == (0, 0), status
        if not self.books.cleared:
            assert status.accepted - self.books.accepted_before == SEEDS.total(), status
            assert status.done + status.dead - self.books.done_before == SEEDS.total(), status
        assert self.run(worker.frontier.finish(status.epoch))


def test_whatever_happens_nothing_is_lost_and_the_books_balance(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "FIRST_WAIT_S", 0.0001)
    monkeypatch.setattr(line.logger, "disabled", True)
    monkeypatch.setattr(outbox, "DURABLE_S", 1e9)
    FrontierModel.url = redis_url
    run_state_machine_as_test(
        FrontierModel,
        settings=settings(
            max_examples=EXAMPLES or 60,
            stateful_step_count=60,
            derandomize=not EXAMPLES,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
