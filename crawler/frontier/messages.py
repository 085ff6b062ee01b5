"""What a worker says to the frontier, and what it hears."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
    #: How long some of the leased seeds were queued, those that came with a stamp.
    waits_ms: list[int] = field(default_factory=list)


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
    #: The project that the frontier belongs to.
    project: str
