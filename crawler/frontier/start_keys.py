"""The keys into which producers write start URLs, as they do for scrapy-redis: `<spider>:start_urls`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from crawler.frontier.calls import Call
from crawler.frontier.frontier import Frontier


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold entries that were taken from a start key."""

    key: str
    name: str
    #: (entry, score); the score is None where the key is no sorted set.
    entries: list[tuple[bytes, float | None]]


class StartKeys:
    """Take what producers wrote, the first key's entries before the second's; safe to repeat at every step."""

    def __init__(self, frontier: Frontier, keys: Sequence[str], patience_ms: int) -> None:
        self._frontier = frontier
        self._keys = keys
        self._patience_ms = patience_ms
        self._batches = 0

    async def take(self, want: int) -> Batch | None:
        """Take up to *want* entries of the first key that has any; one round trip a key. None: there are none.

        They must be given to `drop` when the frontier has them; else another worker takes them, after the patience.
        Raises FrontierError when a key holds something else than a list, a set or a sorted set.
        """
        for key in self._keys:
            self._batches += 1
            batch = f"{self._frontier.worker}:{self._batches}:{os.urandom(2).hex()}"
            reply = await self._frontier.run(Call("take", [key, _taken(key)], [batch, want, self._patience_ms]))
            if reply:
                name, *flat = reply
                pairs = zip(flat[::2], flat[1::2], strict=True)
                entries = [(entry, float(score) if score else None) for entry, score in pairs]
                return Batch(key, name.decode(), entries)
        return None

    async def any(self) -> bool:
        """Tell whether any entry waits, or was taken and not dropped; one round trip a key."""
        for key in self._keys:
            if await self._frontier.run(Call("waiting", [key, _taken(key)], [])):
                return True
        return False

    async def drop(self, batch: Batch) -> None:
        """Say that the frontier has all of a batch; one round trip."""
        await self._frontier.run(Call("drop", [_taken(batch.key)], [batch.name]))

    async def bury(self, entries: Sequence[tuple[str, bytes]]) -> None:
        """Set entries aside, each with its reason; one round trip."""
        keys = self._frontier.keys
        flat = [value for pair in entries for value in pair]
        await self._frontier.run(Call("bury", [keys.meta, keys.dead], flat))


def _taken(key: str) -> str:
    """Return the key of what was taken: on the same node of a cluster as *key*."""
    return f"{key}:taken" if "{" in key else f"{{{key}}}:taken"
