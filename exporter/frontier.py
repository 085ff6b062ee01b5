"""Read every spider's frontier in one conversation with Redis, and show where its seeds are and who works on them."""

from collections.abc import Mapping

from crawler.errors import FrontierDownError, FrontierError
from crawler.frontier.calls import read_status, status_call
from crawler.frontier.keys import SPIDERS, Keys
from crawler.frontier.status import Status
from exporter import names
from exporter.exposition import Exposition
from exporter.line import Line, Question
from exporter.names import Band, WorkerState


class Frontiers:
    """Hold a snapshot of every spider's frontier, each atomic in itself."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._statuses: dict[str, Status] | None = None

    @property
    def is_up(self) -> bool:
        """Tell whether Redis answered at the last refresh."""
        return self._statuses is not None

    @property
    def statuses(self) -> Mapping[str, Status]:
        """Return the snapshots by spider, as of the last refresh; raises FrontierDownError if Redis did not answer."""
        if self._statuses is None:
            raise FrontierDownError(f"Redis at {self.line.where} did not answer")
        return self._statuses

    def refresh(self) -> None:
        """Read all frontiers; two round trips, O(spiders).

        Raises FrontierDownError, or a FrontierError for the spiders that can't be read; the others then have been.
        """
        self._statuses = None
        [members] = self.line.ask([Question.of("SMEMBERS", SPIDERS)])
        tags = sorted(tag.decode() for tag in members)
        answers = dict(zip(tags, self.line.try_to_run([status_call(Keys(tag)) for tag in tags]), strict=True))
        refused = {tag: answer for tag, answer in answers.items() if isinstance(answer, Exception)}
        self._statuses = {tag: read_status(answer) for tag, answer in answers.items() if tag not in refused}
        if refused:
            tag, error = next(iter(refused.items()))
            raise FrontierError(f"the frontier of {tag} can't be read ({len(refused)} such): {error}")


class FrontierCollector:
    """Show where every accepted seed is."""

    name = "frontier"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers

    def collect(self, out: Exposition) -> None:
        """Read the frontiers anew, for the collectors after this one too."""
        try:
            self._frontiers.refresh()
        finally:
            out.add(names.REDIS_UP, self._frontiers.is_up)
            if self._frontiers.is_up:
                for spider, status in self._frontiers.statuses.items():
                    self._add(out, spider, status)

    def _add(self, out: Exposition, spider: str, status: Status) -> None:
        out.add(names.ACCEPTED, status.accepted, spider)
        for band, seeds in _bands(status).items():
            out.add(names.QUEUED, seeds, spider, band)
        out.add(names.LEASED, status.leased, spider)
        out.add(names.DONE, status.done, spider)
        out.add(names.DEAD, status.dead, spider)
        out.add(names.REMOVED, status.removed, spider)
        out.add(names.PAGES, status.pages, spider)
        out.add(names.PAGES_LIMIT, status.max_pages, spider)
        out.add(names.SEEDS_LIMIT, status.max_seeds, spider)
        out.add(names.FULL, status.is_full, spider)
        out.add(names.FILTERED, status.filtered, spider)
        out.add(names.HOSTS, status.hosts, spider)
        out.add(names.HOSTS_BLOCKED, status.hosts_blocked, spider)
        out.add(names.HOSTS_APART, status.hosts_apart, spider)
        out.add(names.CRAWLS, status.epoch, spider)
        out.add(names.PAUSED, status.state == "paused", spider)
        out.add(names.COMPLETE, status.is_complete, spider)


def _bands(status: Status) -> dict[Band, int]:
    bands: dict[Band, int] = {"high": 0, "normal": 0, "low": 0, "host": status.parked, "suspect": status.suspects}
    for priority, seeds in status.inboxes.items():
        bands[band_of(priority)] += seeds
    return bands


def band_of(priority: int) -> Band:
    """Return the band that a priority belongs to."""
    return "high" if priority > 0 else "low" if priority < 0 else "normal"


class WorkerCollector:
    """Show who works on each frontier, from the workers' own heartbeats."""

    name = "workers"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers

    def collect(self, out: Exposition) -> None:
        """Use the frontiers as they were last read."""
        for spider, status in self._frontiers.statuses.items():
            states: dict[WorkerState, int] = {"working": 0, "idle": 0, "lost": 0}
            for worker, (deadline_ms, leases) in status.workers.items():
                states["lost" if deadline_ms < status.now_ms else "working" if leases else "idle"] += 1
                out.add(names.WORKER_LEASES, leases, spider, worker)
                out.add(names.WORKER_LEASE_EXPIRY, deadline_ms / 1000, spider, worker)
            for state, workers in states.items():
                out.add(names.WORKERS, workers, spider, state)
            out.add(names.STARTING, status.starting, spider)
            out.add(names.WORKERS_LOST, status.workers_lost, spider)
