"""One worker's session with one spider's frontier: what may be said in which order, and what follows from it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from crawler.errors import ConfigError
from crawler.frontier.calls import (
    AGAIN,
    Call,
    Number,
    SessionCalls,
    clear_call,
    read_answers,
    read_opened,
    read_status,
    status_call,
)
from crawler.frontier.client import translated
from crawler.frontier.keys import SPIDERS, Keys
from crawler.frontier.line import Line
from crawler.frontier.messages import Ack, Answer, Link, Opened, Turn, Want
from crawler.frontier.rules import Rules
from crawler.frontier.status import Status

#: With `appendfsync everysec`, what was written is on the disk after this time at the latest, seconds.
FSYNC_S = 2.0

#: What `open` answers where the frontier belongs to another project, and where it knows no such session.
_NOT_OURS, _NEW = -2, -1


class Frontier:
    """Speak for one worker with the frontier of one spider.

    Calls are made one after another. Each call that changes something is numbered and repeated, with growing waits,
    until Redis has answered, so that none happens twice and none is forgotten: a call returns late, not wrongly, while
    Redis is away or full. Cancel it to give up; what was under way is then in doubt, and the session must be left to
    expire.
    """

    def __init__(self, clients: Callable[[str], Redis], keys: Keys, worker: str, rules: Rules, where: str) -> None:
        self.line = Line(clients, where)
        self.keys = keys
        self.worker = worker
        self.rules = rules
        #: Number of the last call that this session made.
        self.seq = 0
        # Whether that call handed seeds out.
        self._popped = False
        self.calls = SessionCalls(keys, worker, rules)
        #: Called with how long a seed was queued, seconds, where that is known.
        self.on_wait: Callable[[float], None] = lambda _: None

    # -- the session

    async def open(self, *, begin: bool, starting: bool, held: Sequence[str] = (), patient: bool = False) -> Opened:
        """Begin the session, or begin it again with the leases *held*; one round trip.

        begin: whether a complete frontier begins a new crawl. Raises ConfigError when the frontier belongs to another
        project, and FrontierDownError unless *patient*.
        """
        call = self.calls.open(self.seq + 1, begin=begin, starting=starting, held=held)
        opened = read_opened(await self.line.insist(lambda: self.line.one(call), patient=patient))
        if opened.was == _NOT_OURS:
            raise ConfigError(
                f"FRONTIER_NAMESPACE: the frontier {self.keys.base} belongs to the project {opened.project!r}, this is "
                f"{self.rules.project!r}. Give each project a namespace of its own"
            )
        self.seq += 1
        self._popped = False
        if opened.was == _NEW:
            await self.line.insist(self._register, patient=patient)
        return opened

    async def leave(self) -> int:
        """Give all leases back to the front of the queue and sign off; return how many; one round trip."""
        return await self._release("leave", [])

    async def give_back(self, tokens: Sequence[str]) -> int:
        """Give these leases back to the front of the queue; return how many this worker had; one round trip."""
        return await self._release("these", tokens)

    async def _release(self, mode: str, tokens: Sequence[str]) -> int:
        _turn, given = await self.run(self.calls.release(self.number(), mode, tokens))
        self.seq += 1
        self._popped = False
        return int(given)

    # -- the conversation

    async def exchange(
        self, links: Sequence[Link] = (), acks: Sequence[Ack] = (), turns: Sequence[Turn] = (), want: Want | None = None
    ) -> Answer:
        """Push links, then acknowledge pages, then take seeds: one round trip, in this order, each only after the last.

        O(links + acks + seeds). Raises FrontierError when Redis refuses for a reason that waiting won't mend.
        """
        calls: list[Call] = []
        if links:
            calls.append(self.calls.push(self.number(), links))
        if acks or turns:
            calls.append(self.calls.complete(self.number(len(calls)), acks, turns))
        if want:
            calls.append(self.calls.pop(self.number(len(calls)), want))
        if not calls:
            return Answer()
        replies = await self.line.insist(lambda: self.line.many(calls))
        answer = read_answers(calls, replies)
        if answer.lost:
            return answer
        for wait_ms in answer.waits_ms:
            self.on_wait(wait_ms / 1000)
        # A pop that hands nothing out uses up no number.
        popped = want is not None and (bool(answer.leases) or replies[-1][0] == AGAIN)
        if applied := len(calls) - (want is not None and not popped):
            self.seq += applied
            self._popped = popped
        return answer

    def number(self, before: int = 0) -> Number:
        """Return the number of the next call but *before*, and whether the call before it handed seeds out."""
        return self.seq + before + 1, int(self._popped and not before)

    # -- what needs no session

    async def reclaim(self, limit: int = 1000) -> tuple[bool, int, int]:
        """Take back up to *limit* leases of dead workers; one round trip.

        Returns whether Redis was found to have restarted, and how many seeds became suspects, and dead.
        """
        restarted, suspects, dead = await self.run(self.calls.reclaim(limit))
        return bool(restarted), suspects, dead

    async def wait_durable(self) -> None:
        """Return when what was sent is on Redis's disk (or Redis keeps none): WAITAOF, else two fsync periods."""
        with translated(self.line.where):
            try:
                await self.line.command(self.keys.meta, "WAITAOF", "1", "0", "5000")
            except ResponseError:  # before 7.2, or without an append-only file
                persistence: dict[str, Any] = await self.line.clients(self.keys.meta).info("persistence")
                if persistence.get("aof_enabled"):
                    await asyncio.sleep(FSYNC_S)

    async def rewrite_log(self) -> None:
        """Ask Redis to write its append-only file anew; a refusal (one is being written) does not matter."""
        with suppress(RedisError, OSError):
            await self.line.command(self.keys.meta, "BGREWRITEAOF")

    async def finish(self, epoch: int) -> bool:
        """Agree with all workers that crawl number *epoch* is complete; False: it is not; one round trip."""
        return bool(await self.run(self.calls.finish(epoch)))

    async def clear(self) -> int:
        """Remove all that is queued and forget what was seen; return how many seeds went; one round trip."""
        return int(await self.run(clear_call(self.keys, forget=True)))

    async def status(self) -> Status:
        """Look at the whole frontier in one atomic snapshot; one round trip, O(priorities + workers)."""
        with translated(self.line.where):
            return read_status(await self.line.one(status_call(self.keys)))

    async def run(self, call: Call) -> Any:
        """Run a verb that is safe to repeat, until Redis has answered; one round trip."""
        return await self.line.insist(lambda: self.line.one(call))

    async def _register(self) -> None:
        # A full server refuses SADD even where there is nothing to add.
        if not await self.line.command(SPIDERS, "SISMEMBER", SPIDERS, self.keys.tag):
            await self.line.command(SPIDERS, "SADD", SPIDERS, self.keys.tag)
