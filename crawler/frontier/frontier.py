"""The only class that talks to the verbs: one worker's session with one spider's frontier."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError
from scrapy.settings import BaseSettings

from crawler.config import Config
from crawler.errors import ConfigError, FrontierDownError, FrontierError, FrontierFullError
from crawler.frontier.client import translated
from crawler.frontier.dedup import Dedup
from crawler.frontier.keys import SPIDERS, Keys
from crawler.frontier.status import Status
from crawler.frontier.verbs import declared, verb
from crawler.frontier.wire import pack, raw

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: What `turn_of` in _session.lua answers.
LOST, NEXT, AGAIN = 0, 1, 2

#: Waits between two tries while Redis is away, seconds.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 3.0

#: Kinds of conversations: an exchange pushes, completes and pops.
OPERATIONS = ("exchange", "open", "release", "reclaim", "finish", "status")

#: With `appendfsync everysec`, what was written is on the disk after this time at the latest, seconds.
FSYNC_S = 2.0

#: Priorities up to here are exact; what lies beyond, either way, counts as this.
HIGHEST_PRIORITY = 2**53

#: How a link meets the filter: checked and noted; a start request, admitted once a crawl; neither.
FILTERED, START, UNFILTERED = 0, 1, 2


class Link(NamedTuple):
    """Hold one seed on its way into the frontier."""

    priority: int
    fingerprint: bytes
    kind: int
    seed: bytes


class Lease(NamedTuple):
    """Hold one seed that the frontier handed to this worker."""

    token: str
    priority: int
    #: Not 0: its host has this delay, and is busy until a turn is reported.
    delay_ms: int
    seed: bytes


class Ack(NamedTuple):
    """Acknowledge one lease, with the children that no filter guards."""

    token: str
    #: Empty: done. Else: why the seed is set aside.
    reason: str = ""
    #: (priority, seed) of each child.
    children: Sequence[tuple[int, bytes]] = ()


class Turn(NamedTuple):
    """Report that the fetch of one lease is over, and when its host may be fetched next."""

    token: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Hold what the frontier said when it had nothing to hand out; counts are seeds of all workers."""

    queued: int
    leased: int
    #: Workers whose spider still gives start requests.
    starting: int
    #: Until the next host's turn; -1: no host waits.
    wait_ms: int
    #: This worker is to finish what it holds: then it gets a suspect, to be run alone.
    drain: bool
    #: Workers that share the crawl.
    workers: int

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is left for anybody."""
        return not (self.queued or self.leased or self.starting)


@dataclass(frozen=True, slots=True)
class Want:
    """Ask for seeds."""

    seeds: int
    #: Seeds of one host that this worker may hold at most.
    per_host: int
    #: Host -> seeds of it that this worker holds.
    held: Mapping[str, int]
    #: The spider has given all of its start requests.
    started: bool


@dataclass(slots=True)
class Answer:
    """Hold what one exchange brought."""

    #: The session is gone, or Redis lost its last moments: nothing below counts. Open it again.
    lost: bool = False
    accepted: int = 0
    filtered: int = 0
    done: int = 0
    stale: int = 0
    leases: list[Lease] = field(default_factory=list)
    state: str = ""
    #: Changes when what was seen was forgotten.
    generation: int = 0
    idle: Idle | None = None
    #: Whether the queue is full, where start URLs are to wait then; None: it was not asked.
    full: bool | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """Hold what the frontier said at the beginning of a session."""

    #: The last call of this session that the server knew of; -1: it knew no such session.
    was: int
    epoch: int
    generation: int
    #: Tokens that this worker holds and the server does not know.
    missing: frozenset[str]
    #: Names the crawl: no other one of this frontier has this name.
    crawl_id: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Hold what all workers of a spider agree on."""

    project: str
    dedup: Dedup
    lease_ms: int
    #: Between two fetches of one host by any worker.
    delay_ms: int = 0
    lifo: bool = False
    keep_seen: bool = False
    max_deaths: int = 3
    #: Pages that a crawl may fetch, in all and of one host; 0: any number.
    max_pages: int = 0
    max_host_pages: int = 0
    #: Seeds that may be queued or leased, 0: any number; and whether the lowest of more are dropped.
    max_seeds: int = 0
    drops: bool = False
    #: Seeds that a pop looks at beyond those that it hands out.
    scan: int = 512

    @classmethod
    def of(cls, config: Config, settings: BaseSettings) -> Self:
        """Return the rules that the settings ask for."""
        return cls(
            project=settings["BOT_NAME"],
            dedup=Dedup.of(config),
            lease_ms=int(config.frontier_lease_s * 1000),
            delay_ms=int(settings.getfloat("DOWNLOAD_DELAY") * 1000),
            keep_seen=config.dedup_keep or config.dedup_ttl_s > 0,
            max_deaths=config.frontier_max_deaths,
            max_pages=config.frontier_max_pages,
            max_host_pages=config.frontier_max_pages_per_host,
            max_seeds=config.frontier_max_seeds,
            drops=config.frontier_full == "drop-lowest",
        )


class Frontier:
    """Speak for one worker with the frontier of one spider.

    Calls are made one after another. Each call that changes something is numbered and repeated, with growing waits,
    until Redis has answered, so that none happens twice and none is forgotten: a call returns late, not wrongly, while
    Redis is away or full. Cancel it to give up; what was under way is then in doubt, and the session must be left to
    expire.
    """

    def __init__(self, clients: Callable[[str], Redis], keys: Keys, worker: str, rules: Rules, where: str) -> None:
        #: Gives the client of the server that holds a key.
        self.clients = clients
        self.keys = keys
        self.worker = worker
        self.rules = rules
        self.where = where
        #: Number of the last call that this session made.
        self.seq = 0
        # Whether that call handed seeds out; see _session.lua.
        self._popped = False
        #: Called with the error, or None, when Redis goes away or comes back.
        self.on_trouble: Callable[[FrontierError | None], None] = _ignore
        #: Called after each conversation with its kind (see OPERATIONS) and how long it took, seconds.
        self.on_call: Callable[[str, float], None] = _ignore
        self._in_trouble = False
        self._limits = pack(
            {
                "pages": rules.max_pages,
                "host_pages": rules.max_host_pages,
                "seeds": rules.max_seeds,
                "drops": rules.drops,
                "ttl_ms": rules.dedup.ttl_ms,
            }
        )

    # -- the session

    async def open(self, *, begin: bool, starting: bool, held: Sequence[str] = (), patient: bool = False) -> Opened:
        """Begin the session, or begin it again with the leases *held*; one round trip.

        begin: whether a complete frontier begins a new crawl. Raises ConfigError when the frontier belongs to another
        project, and FrontierDownError unless *patient*.
        """
        keys, rules = self.keys, self.rules
        names = [keys.session(self.worker), keys.leases(self.worker), keys.priorities, keys.busy, keys.suspects]
        names += [keys.workers, keys.starting, keys.meta, keys.seen]
        args: list[Any] = [
            keys.base,
            self.worker,
            self.seq + 1,
            rules.lease_ms,
            rules.project,
            int(begin),
            int(starting),
            pack(held),
        ]
        args += [*rules.dedup.argv, rules.max_pages, rules.max_seeds]
        was, epoch, generation, missing, project, began_ms = await self._insist(
            lambda: self._one("open", names, args), patient=patient
        )
        if was == -2:
            raise ConfigError(
                f"FRONTIER_NAMESPACE: the frontier {keys.base} belongs to the project {project.decode()!r}, this is "
                f"{rules.project!r}. Give each project a namespace of its own"
            )
        self.seq += 1
        self._popped = False
        if was == -1:
            await self._insist(self._register, patient=patient)
        tokens = frozenset(token.decode() for token in missing)
        return Opened(was, epoch, generation, tokens, f"{epoch}:{began_ms}")

    async def leave(self) -> int:
        """Give all leases back to the front of the queue and sign off; return how many; one round trip."""
        return await self._release("leave", [])

    async def give_back(self, tokens: Sequence[str]) -> int:
        """Give these leases back to the front of the queue; return how many this worker had; one round trip."""
        return await self._release("these", tokens)

    async def _release(self, mode: str, tokens: Sequence[str]) -> int:
        keys = self.keys
        names = [keys.session(self.worker), keys.leases(self.worker), keys.priorities, keys.busy, keys.suspects]
        names += [keys.workers, keys.starting, keys.meta]
        args = [keys.base, self.worker, *self._number(), mode, pack(tokens)]
        _turn, given = await self._insist(lambda: self._one("release", names, args))
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
        calls: list[tuple[str, list[str], list[Any]]] = []
        if links:
            calls.append(self._push(links, self._number()))
        if acks or turns:
            calls.append(self._complete(acks, turns, self._number(len(calls))))
        if want:
            calls.append(self._pop(want, self._number(len(calls))))
        if not calls:
            return Answer()
        replies = await self._insist(lambda: self._many(calls))
        if any(reply[0] == LOST for reply in replies):
            return Answer(lost=True)
        answer = Answer()
        for (name, _, _), reply in zip(calls, replies, strict=True):
            if name == "push":
                _, answer.accepted, answer.filtered, full = reply
                answer.full = bool(full)
            elif name == "complete":
                _, answer.done, answer.stale = reply
            else:
                _read_pop(reply, answer)
        # A pop that hands nothing out uses up no number.
        popped = want is not None and (bool(answer.leases) or replies[-1][0] == AGAIN)
        if applied := len(calls) - (want is not None and not popped):
            self.seq += applied
            self._popped = popped
        return answer

    def _number(self, before: int = 0) -> tuple[int, int]:
        """Return the number of the next call but *before*, and whether the call before it handed seeds out."""
        return self.seq + before + 1, int(self._popped and not before)

    def _push(self, links: Iterable[Link], number: tuple[int, int]) -> tuple[str, list[str], list[Any]]:
        keys, rules = self.keys, self.rules
        flat: list[Any] = []
        for priority, fingerprint, kind, seed in links:
            flat += bounded(priority), raw(fingerprint), kind, raw(seed)
        names = [keys.session(self.worker), keys.meta, keys.priorities, keys.starts, keys.parked, keys.dead, keys.seen]
        return "push", names, [keys.base, *number, self._order, *rules.dedup.argv, pack(flat), self._limits]

    def _complete(
        self, acks: Iterable[Ack], turns: Iterable[Turn], number: tuple[int, int]
    ) -> tuple[str, list[str], list[Any]]:
        keys = self.keys
        names = [keys.session(self.worker), keys.leases(self.worker), keys.meta, keys.priorities]
        names += [keys.busy, keys.parked, keys.dead]
        flat: list[Any] = []
        for ack in acks:
            children: list[Any] = []
            for priority, seed in ack.children:
                children += bounded(priority), raw(seed)
            flat += ack.token, ack.reason, children
        waits = [value for turn in turns for value in turn]
        return "complete", names, [keys.base, *number, self._order, pack(flat), pack(waits), self._limits]

    def _pop(self, want: Want, number: tuple[int, int]) -> tuple[str, list[str], list[Any]]:
        keys, rules = self.keys, self.rules
        names = [keys.session(self.worker), keys.workers, keys.meta, keys.priorities, keys.busy, keys.parked]
        names += [keys.suspects, keys.leases(self.worker), keys.delays, keys.starting, keys.dead]
        args = [keys.base, self.worker, *number, want.seeds, rules.delay_ms, want.per_host, rules.scan + want.seeds]
        return "pop", names, [*args, int(want.started), pack(want.held), self._limits]

    @property
    def _order(self) -> str:
        return "lifo" if self.rules.lifo else "fifo"

    # -- what needs no session

    async def reclaim(self, limit: int = 1000) -> tuple[bool, int, int]:
        """Take back up to *limit* leases of dead workers; one round trip.

        Returns whether Redis was found to have restarted, and how many seeds became suspects, and dead.
        """
        keys, rules = self.keys, self.rules
        names = [keys.workers, keys.meta, keys.busy, keys.suspects, keys.dead, keys.starting]
        args = [keys.base, self.worker, rules.lease_ms, limit, rules.max_deaths]
        restarted, suspects, dead = await self._insist(lambda: self._one("reclaim", names, args))
        return bool(restarted), suspects, dead

    async def wait_durable(self) -> None:
        """Return when what was sent is on Redis's disk (or Redis keeps none): WAITAOF, else two fsync periods."""
        with translated(self.where):
            try:
                await self._direct(self.keys.meta, "WAITAOF", "1", "0", "5000")
            except ResponseError:  # before 7.2, or without an append-only file
                persistence: dict[str, Any] = await self.clients(self.keys.meta).info("persistence")
                if persistence.get("aof_enabled"):
                    await asyncio.sleep(FSYNC_S)

    async def rewrite_log(self) -> None:
        """Ask Redis to write its append-only file anew; a refusal (one is being written) does not matter."""
        with suppress(RedisError, OSError):
            await self._direct(self.keys.meta, "BGREWRITEAOF")

    async def finish(self, epoch: int) -> bool:
        """Agree with all workers that crawl number *epoch* is complete; False: it is not; one round trip."""
        keys = self.keys
        names = [keys.meta, keys.priorities, keys.suspects, keys.workers, keys.starting, keys.starts, keys.seen]
        args = [keys.base, epoch, int(self.rules.keep_seen)]
        return bool(await self._insist(lambda: self._one("finish", names, args)))

    async def clear(self) -> int:
        """Remove all that is queued and forget what was seen; return how many seeds went; one round trip."""
        return int(await self.run("clear", *clear_call(self.keys, forget=True)))

    async def status(self) -> Status:
        """Look at the whole frontier in one atomic snapshot; one round trip, O(priorities + workers)."""
        with translated(self.where):
            return read_status(await self._one("status", *status_call(self.keys)))

    async def _register(self) -> None:
        # A full server refuses SADD even where there is nothing to add.
        if not await self._direct(SPIDERS, "SISMEMBER", SPIDERS, self.keys.tag):
            await self._direct(SPIDERS, "SADD", SPIDERS, self.keys.tag)

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run a verb that is safe to repeat, until Redis has answered; one round trip."""
        return await self._insist(lambda: self._one(name, keys, args))

    # -- the line

    async def _insist(self, call: Callable[[], Awaitable[T]], *, patient: bool = True) -> T:
        wait_s = FIRST_WAIT_S
        while True:
            try:
                with translated(self.where):
                    answer = await call()
            except (FrontierDownError, FrontierFullError) as error:
                if not patient:
                    raise
                if not self._in_trouble:
                    self._in_trouble = True
                    logger.warning("%s. Waiting for it; nothing is lost", error)
                    self.on_trouble(error)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            else:
                if self._in_trouble:
                    self._in_trouble = False
                    logger.info("Redis at %s answers again", self.where)
                    self.on_trouble(None)
                return answer

    async def _direct(self, key: str, *command: str) -> Any:
        return await self.clients(key).execute_command(*command)  # type: ignore[no-untyped-call]

    async def _one(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        return (await self._many([(name, keys, args)]))[0]

    async def _many(self, calls: Sequence[tuple[str, Sequence[str], Sequence[Any]]]) -> list[Any]:
        replies = await self._send("EVALSHA", calls)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            # Nothing was skipped: a numbered call is refused until the one before it was applied.
            replies = await self._send("EVAL", calls)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def _send(self, command: str, calls: Sequence[tuple[str, Sequence[str], Sequence[Any]]]) -> list[Any]:
        pipeline = self.clients(calls[0][1][0]).pipeline(transaction=False)
        for name, keys, args in calls:
            script, names = verb(name).sha if command == "EVALSHA" else verb(name).text, declared(keys)
            pipeline.execute_command(command, script, len(names), *names, *args)
        begin_s = time.perf_counter()
        replies = await pipeline.execute(raise_on_error=False)
        self.on_call(name if name in OPERATIONS else "exchange", time.perf_counter() - begin_s)
        return replies


def bounded(priority: float) -> int:
    """Return *priority* as the frontier keeps it."""
    return int(min(max(priority, -HIGHEST_PRIORITY), HIGHEST_PRIORITY))


def _ignore(*_: object) -> None:
    """Stand in where nobody wants to be told."""


def _read_pop(reply: list[Any], answer: Answer) -> None:
    _, answer.generation, state, leases, idle, full = reply
    answer.full = bool(full)
    answer.state = state.decode()
    answer.leases = [
        Lease(leases[i].decode(), int(leases[i + 1]), leases[i + 2], leases[i + 3]) for i in range(0, len(leases), 4)
    ]
    if idle:
        queued, leased, starting, wait_ms, drain, workers = idle
        answer.idle = Idle(queued, leased, starting, wait_ms, bool(drain), workers)


def clear_call(keys: Keys, *, forget: bool) -> tuple[list[str], list[Any]]:
    """Return keys and arguments of the `clear` verb."""
    names = [keys.meta, keys.priorities, keys.parked, keys.suspects, keys.workers, keys.starts, keys.seen]
    return names, [keys.base, int(forget)]


def status_call(keys: Keys) -> tuple[list[str], list[str]]:
    """Return keys and arguments of the `status` verb."""
    names = [keys.meta, keys.priorities, keys.busy, keys.suspects, keys.dead, keys.workers, keys.starting]
    return names, [keys.base]


def read_status(reply: bytes) -> Status:
    """Return what the `status` verb answered."""
    return msgspec.json.decode(reply, type=Status)
