"""Workers without a spider on one frontier: what they say is real, time is moved by hand, and every step is audited."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis.asyncio
from redis import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawler.frontier.calls import read_status, status_call
from crawler.frontier.dedup import Dedup
from crawler.frontier.frontier import Frontier
from crawler.frontier.keys import Keys
from crawler.frontier.messages import FILTERED, Ack, Answer, Lease, Link, Want
from crawler.frontier.rules import Rules
from crawler.frontier.stamp import unstamped
from crawler.frontier.status import Status
from crawler.frontier.verbs import verb

#: As good as for ever: time passes only when a test says so.
LEASE_MS = 10_000_000


TIMEOUT_S = 2.0

_ADVANCE = """
for i = 1, 2 do
  local times = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  for t = 1, #times, 2 do
    if times[t + 1] ~= 'inf' then redis.call('ZADD', KEYS[i], times[t + 1] - ARGV[1], times[t]) end
  end
end
local grace_ms = redis.call('HGET', KEYS[3], 'grace_ms')
if grace_ms then redis.call('HSET', KEYS[3], 'grace_ms', grace_ms - ARGV[1]) end
"""


def link(url: str, priority: int = 0, kind: int = FILTERED) -> Link:
    """Return the link to *url* as the scheduler would send it."""
    return Link(priority, hashlib.sha1(url.encode(), usedforsecurity=False).digest(), kind, seed(url))


def links(*names: str, priority: int = 0) -> list[Link]:
    """Return the links to `http://name` of each name."""
    return [link(f"http://{name}", priority) for name in names]


def seed(url: str) -> bytes:
    return b"--" + url.encode()


def urls(leases: Iterable[Lease]) -> list[str]:
    """Return the URLs of *leases*, in order."""
    return [lease.seed.partition(b"--")[2].decode() for lease in leases]


def host_of(text: bytes) -> str:
    return text.partition(b"://")[2].partition(b"/")[0].decode()


class LossyRedis(redis.asyncio.Redis):
    """Lose, when told, the next reply of a pipeline, or what it says after its first few commands."""

    #: What becomes of the next pipelines, first come first served: the number of commands that reach the server.
    faults: list[int]
    #: What happens between the next loss and whatever its sender does about it.
    meanwhile: Callable[[], Awaitable[object]] | None = None

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        pipeline = super().pipeline(transaction, shard_hint)
        if self.faults:
            execute, reached = pipeline.execute, self.faults.pop(0)

            async def lose(raise_on_error: bool = True) -> list[Any]:
                del pipeline.command_stack[reached:]
                await execute(raise_on_error)
                if self.meanwhile:
                    happens, self.meanwhile = self.meanwhile, None
                    await happens()
                raise redis.ConnectionError("the reply was lost")

            pipeline.execute = lose  # type: ignore[method-assign]
        return pipeline


class Fleet:
    """Hold one spider's frontier and its workers."""

    def __init__(self, url: str, dedup: str = "exact", ttl_ms: int = 0, **rules: Any) -> None:
        # A child of a killed server that was writing its file anew keeps the connections open for a while.
        # `Any`, as the client's own types leave open whether text is bytes.
        self.redis: Any = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, retry_on_error=[redis.ConnectionError, redis.TimeoutError]
        )
        self.lossy: Any = LossyRedis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=TIMEOUT_S)
        self.lossy.faults = []
        self.keys = Keys.of("spider")
        self.rules = Rules("project", Dedup(dedup, 1000, 0.001, ttl_ms), **({"lease_ms": LEASE_MS} | rules))  # type: ignore[arg-type]
        self.count = 0

    async def close(self) -> None:
        self.redis.close()
        await self.lossy.aclose()

    # -- workers

    def worker(self, **rules: Any) -> Frontier:
        """Return a worker that has not opened its session."""
        self.count += 1
        changed = Rules(**({name: getattr(self.rules, name) for name in Rules.__slots__} | rules))
        return Frontier(lambda _: self.lossy, self.keys, f"worker{self.count}", changed, "here")

    async def opened(self, **rules: Any) -> Frontier:
        """Return a worker in the midst of the crawl."""
        worker = self.worker(**rules)
        await worker.open(begin=True, starting=False)
        return worker

    async def push(self, worker: Frontier, links: Sequence[Link]) -> Answer:
        answer = await worker.exchange(links)
        self.audit()
        return answer

    async def pop(
        self, worker: Frontier, seeds: int = 100, *, per_host: int = 100, held: Iterable[Lease] = ()
    ) -> Answer:
        """Take seeds, and audit the frontier."""
        at_hand = Counter(host_of(lease.seed) for lease in held)
        answer = await worker.exchange(want=Want(seeds, per_host, at_hand, started=True))
        self.audit()
        return answer

    async def complete(self, worker: Frontier, leases: Iterable[Lease]) -> Answer:
        answer = await worker.exchange(acks=[Ack(lease.token) for lease in leases])
        self.audit()
        return answer

    # -- time

    def advance(self, ms: int) -> None:
        """Let *ms* pass: every time that the frontier noted moves into the past."""
        self.redis.eval(_ADVANCE, 3, self.keys.busy, self.keys.workers, self.keys.meta, ms)

    def expire(self, *workers: Frontier) -> None:
        """Let the leases of these workers run out."""
        self.redis.zadd(self.keys.workers, {worker.worker: 1 for worker in workers})

    async def die(self, *workers: Frontier, by: Frontier) -> tuple[int, int]:
        """Let these workers be dead for as long as it takes, and *by* take over; return suspects and dead."""
        self.expire(*workers)
        _, suspects, dead = await by.reclaim()
        self.audit()
        return suspects, dead

    # -- the server's troubles

    def snapshot(self) -> dict[bytes, bytes]:
        """Return all that the server holds."""
        return {key: self.redis.dump(key) for key in self.redis.scan_iter(count=1000)}

    def roll_back(self, snapshot: dict[bytes, bytes]) -> None:
        """Bring the server back to what it held, as a restart from an older file does."""
        pipeline = self.redis.pipeline()
        pipeline.flushall()
        for key, value in snapshot.items():
            pipeline.restore(key, 0, value)
        pipeline.execute()

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave the server no memory."""
        self.redis.config_set("maxmemory", 1)
        try:
            yield
        finally:
            self.redis.config_set("maxmemory", 0)

    # -- looking

    def status(self) -> Status:
        _, names, args = status_call(self.keys)
        return read_status(self.redis.eval(verb("status").text, len(names), *names, *args))

    def queued_in(self, name: str) -> list[bytes]:
        """Return the seeds in one list of the queue."""
        return [unstamped(queued) for queued in self.redis.lrange(name, 0, -1)]

    def audit(self) -> Counter[bytes]:
        """Find every seed where it really is, assert that the frontier is sound, and return the seeds that it holds."""
        keys, client, status = self.keys, self.redis, self.status()
        names = {name.decode() for name in client.scan_iter(match=keys.base + "*", count=1000)}
        part = self._parts(names)

        inboxes = {int(p): self.queued_in(keys.inbox(int(p))) for p in part("inbox")}
        apart: dict[str, dict[int, list[bytes]]] = {}
        for rest in part("host"):
            priority, _, host = rest.partition(":")
            apart.setdefault(host, {})[int(priority)] = self.queued_in(keys.host(int(priority), host))
        ready = {int(p): client.zrange(keys.ready(int(p)), 0, -1) for p in part("ready")}
        suspects = [text.split(b" ", 4)[4] for text in client.lrange(keys.suspects, 0, -1)]
        leased = {worker: client.hgetall(keys.leases(worker)) for worker in part("leases")}

        parked = [seed for levels in apart.values() for seeds in levels.values() for seed in seeds]
        queued = [seed for seeds in inboxes.values() for seed in seeds] + parked + suspects
        held = [text.split(b" ", 4)[4] for texts in leased.values() for text in texts.values()]

        # Invariant 4: the books balance, and they speak of what is really there.
        assert status.unbalanced == 0, status
        assert (status.queued, status.parked, status.suspects) == (len(queued), len(parked), len(suspects)), status
        assert status.leased == len(held), status
        assert status.dead == client.hlen(keys.dead)

        # Whoever holds leases is known, and so will be missed when it dies.
        workers = {name.decode() for name in client.zrange(keys.workers, 0, -1)}
        assert set(part("leases")) <= workers
        assert set(part("session")) == workers
        assert {name.decode() for name in client.smembers(keys.starting)} <= workers

        # What is queued will be found: each inbox by its priority, each host set apart by its turn.
        priorities = {int(p): score for p, score in client.zrange(keys.priorities, 0, -1, withscores=True)}
        assert all(p == score for p, score in priorities.items())
        assert {*inboxes, *ready} <= set(priorities)
        waiting = {host.decode() for host in client.zrange(keys.busy, 0, -1)}
        noted = {host.decode(): {int(p) for p in at.split(b",")} for host, at in client.hgetall(keys.parked).items()}
        for host, levels in apart.items():
            assert set(levels) <= noted[host]
            assert host in waiting or all(host.encode() in ready[level] for level in levels), host
        for level, hosts in ready.items():
            assert all(level in noted[host.decode()] for host in hosts)
        return Counter(queued + held)

    @staticmethod
    def _parts(names: set[str]) -> Callable[[str], list[str]]:
        def part(name: str) -> list[str]:
            prefix = Keys.of("spider")(name) + ":"
            return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

        return part


MakeFleet = Callable[..., Fleet]


async def taken(fleet: Fleet, worker: Frontier, seeds: int = 100, **how: Any) -> list[str]:
    """Take seeds and return their URLs without the scheme."""
    return [url.removeprefix("http://") for url in urls((await fleet.pop(worker, seeds, **how)).leases)]
