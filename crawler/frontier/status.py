"""What the `status` verb says of one spider's frontier."""

import msgspec


class Status(msgspec.Struct, frozen=True):
    """Hold one atomic snapshot of a spider's frontier; every number counts seeds unless its name says otherwise."""

    #: Server time of the snapshot, milliseconds.
    now_ms: int
    #: "new", "running", "paused" or "complete".
    state: str
    #: How many crawls this frontier has begun.
    epoch: int
    accepted: int
    queued: int
    leased: int
    done: int
    dead: int
    removed: int
    #: Handed out in this crawl, those left out that came back without having been worked on.
    pages: int
    #: As many may be; 0: any number.
    max_pages: int
    #: Seeds that may be queued or leased; 0: any number.
    max_seeds: int
    #: Links that the dedup refused.
    filtered: int
    #: Of the queued: those set apart because their host waits.
    parked: int
    #: Of the queued: those that were in a dead worker's hands, to be run alone.
    suspects: int
    #: Hosts that wait for their turn.
    hosts: int
    #: Of them: those that an operator has blocked.
    hosts_blocked: int
    #: Hosts that have seeds set apart.
    hosts_apart: int
    #: Workers whose spider still gives start requests.
    starting: int
    #: Workers that died or froze, and whose seeds were taken back, since the frontier was new.
    workers_lost: int
    #: What the filter was made for, as _dedup.lua notes it; empty: there is none yet.
    dedup: str
    #: Fingerprints in the filter.
    seen: int
    #: With a DEDUP_TTL_S, "slice=fingerprints …" of its filters, oldest first.
    slices: str
    #: Queued seeds by priority, the parked and suspect ones left out.
    inboxes: dict[int, int]
    #: Worker id -> (server time until which its leases hold, in ms; leases).
    workers: dict[str, tuple[int, int]]

    @property
    def unbalanced(self) -> int:
        """Return how many accepted seeds are in no place, or (negative) in two; 0 in every sound frontier."""
        return self.accepted - (self.queued + self.leased + self.done + self.dead + self.removed)

    @property
    def is_full(self) -> bool:
        """Tell whether as many seeds are queued or leased as may be."""
        return 0 < self.max_seeds <= self.queued + self.leased

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is left to do and nobody is still starting."""
        return not (self.queued or self.leased or self.starting)
