"""What an operator may do to a spider's frontier while the crawl runs; each step is atomic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis
from redis.exceptions import NoScriptError

from crawler.frontier.calls import Call, clear_call, read_status, status_call
from crawler.frontier.client import Clients, translated
from crawler.frontier.keys import SPIDERS, Keys
from crawler.frontier.stamp import unstamped
from crawler.frontier.status import Status
from crawler.frontier.verbs import declared, verb

#: Dead seeds that are read or revived in one call.
BATCH = 500


@dataclass(frozen=True, slots=True)
class DeadSeed:
    """Hold a seed that was set aside."""

    number: int
    #: Server time, ms.
    died_ms: int
    reason: str
    priority: int
    #: Workers that died while it ran alone.
    deaths: int
    seed: str


def spiders(clients: Clients) -> list[str]:
    """Return the tags of all spiders that have a frontier; one round trip."""
    members: Any = clients(SPIDERS).smembers
    with translated(clients.where):
        return sorted(tag.decode() for tag in members(SPIDERS))


class Controls:
    """Look at one spider's frontier, and steer it. Raises FrontierError and its kin."""

    def __init__(self, client: Redis, keys: Keys, where: str) -> None:
        self._client: Any = client  # redis-py's annotations name every protocol's replies at once
        self._keys = keys
        self._where = where

    def status(self) -> Status:
        """Return one atomic snapshot; O(priorities + workers)."""
        return read_status(self._run(status_call(self._keys)))

    def peek(self, count: int) -> list[tuple[int, str]]:
        """Return (priority, seed) of the next *count* seeds in line, those set apart for a waiting host left out."""
        found: list[tuple[int, str]] = []
        with translated(self._where):
            for level in self._client.zrevrange(self._keys.priorities, 0, -1):
                priority = int(level)
                seeds = self._client.lrange(self._keys.inbox(priority), 0, count - len(found) - 1)
                found += [(priority, _text(unstamped(seed))) for seed in seeds]
                if len(found) >= count:
                    break
        return found

    def pause(self) -> bool:
        """Make all workers stop taking seeds; what they hold they finish. False: nothing runs here."""
        return self._switch("running", "paused")

    def resume(self) -> bool:
        """Undo `pause`. False: nothing is paused here."""
        return self._switch("paused", "running")

    def set_delay(self, host: str, delay_ms: int | None) -> None:
        """Give *host* a delay of its own for all workers; None: the one that DOWNLOAD_DELAY says."""
        with translated(self._where):
            if delay_ms is None:
                self._client.hdel(self._keys.delays, host)
            else:
                self._client.hset(self._keys.delays, host, delay_ms)

    def block(self, host: str) -> None:
        """Hand out no seed of *host* any more; they are kept."""
        with translated(self._where):
            self._client.zadd(self._keys.busy, {host: "inf"})

    def unblock(self, host: str) -> bool:
        """Undo `block`. False: it was not blocked."""
        with translated(self._where):
            if self._client.zscore(self._keys.busy, host) != float("inf"):
                return False
            self._client.zadd(self._keys.busy, {host: 0})
        return True

    def blocked(self) -> list[str]:
        """Return the blocked hosts."""
        with translated(self._where):
            return [host.decode() for host in self._client.zrangebyscore(self._keys.busy, "inf", "inf")]

    def clear(self, *, forget: bool) -> int:
        """Remove all that is queued, and what was seen if *forget*; return how many seeds were removed."""
        return int(self._run(clear_call(self._keys, forget=forget)))

    def forget(self, fingerprints: Sequence[bytes]) -> int:
        """Forget that these were seen; return how many were. Raises FrontierError where a Bloom filter holds them."""
        return int(self._run(Call("unsee", [self._keys.meta, self._keys.starts, self._keys.seen], fingerprints)))

    def dead(self) -> Iterator[DeadSeed]:
        """Give the seeds that were set aside, in no order."""
        with translated(self._where):
            for number, entry in self._client.hscan_iter(self._keys.dead, count=BATCH):
                died_ms, priority, deaths, length, rest = entry.split(b" ", 4)
                end = int(length)
                reason, seed = _text(rest[:end]), _text(rest[end + 1 :])
                yield DeadSeed(int(number), int(died_ms), reason, int(priority), int(deaths), seed)

    def revive(self, numbers: Sequence[int], *, retry: bool) -> int:
        """Put these dead seeds back into the queue (*retry*), or drop them for good; return how many there were."""
        keys, taken = self._keys, 0
        for first in range(0, len(numbers), BATCH):
            args = [keys.base, int(retry), *numbers[first : first + BATCH]]
            taken += int(self._run(Call("revive", [keys.dead, keys.meta, keys.priorities], args)))
        return taken

    def _switch(self, before: str, after: str) -> bool:
        with translated(self._where):
            if self._client.hget(self._keys.meta, "state") != before.encode():
                return False
            self._client.hset(self._keys.meta, "state", after)
        return True

    def _run(self, call: Call) -> Any:
        script, names = verb(call.name), declared(call.keys)
        with translated(self._where):
            try:
                return self._client.evalsha(script.sha, len(names), *names, *call.args)
            except NoScriptError:
                return self._client.eval(script.text, len(names), *names, *call.args)


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
