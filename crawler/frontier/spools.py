"""What waits for MongoDB on the workers' disks, noted in Redis, so that it can be seen from anywhere.

A note outlives its worker, as the file does: whoever takes the file over goes on with the note, and removes it in the
end.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from crawler.errors import FrontierError
from crawler.frontier.client import AsyncClients, Clients, translated
from crawler.frontier.keys import SPOOLS

NOTE_EVERY_S = 5.0


class Kept(NamedTuple):
    """What one file of a spool holds."""

    documents: int
    size_bytes: int
    #: Since when the oldest document waits, seconds since 1970.
    oldest_s: float


class Note(NamedTuple):
    """What Redis knows of one file of a spool."""

    documents: int
    size_bytes: int
    #: Since when the oldest document waits, and when that was noted, ms since 1970.
    oldest_ms: int
    noted_ms: int


class HasFiles(Protocol):
    """Some spool."""

    #: Names of files that are no more; they are taken out when that is noted.
    gone: set[str]

    @property
    def files(self) -> Mapping[str, Kept]:
        """Return what its files hold, by their names."""


class SpoolNotes:
    """Keep what one worker has on its disk noted; nothing is written while that is nothing."""

    def __init__(self, clients: AsyncClients, spool: HasFiles | None) -> None:
        self._clients = clients
        self._spool = spool
        self._noted: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        if self._spool is not None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Note what is left in the end; a Redis that does not answer is not waited for twice."""
        if self._task is not None:
            self._task.cancel()
            with suppress(FrontierError):
                await self.write()

    async def _run(self) -> None:
        while True:
            with suppress(FrontierError):  # the next note may get through
                await self.write()
            await asyncio.sleep(NOTE_EVERY_S)

    async def write(self) -> None:
        """Note how it is now; one round trip, or two, or none. Raises FrontierError."""
        if self._spool is None:
            return
        now_ms = int(time.time() * 1000)
        notes = {
            name: f"{kept.documents} {kept.size_bytes} {int(kept.oldest_s * 1000)} {now_ms}"
            for name, kept in self._spool.files.items()
            if kept.documents
        }
        client: Any = self._clients(SPOOLS)
        with translated(self._clients.where):
            if notes:
                await client.hset(SPOOLS, mapping=notes)
                self._noted |= set(notes)
            # What another worker noted, too: a file may be taken over and emptied between two notes.
            if gone := (self._noted | self._spool.gone).difference(notes):
                await client.hdel(SPOOLS, *gone)
                self._noted -= gone
                self._spool.gone -= gone


def spool_notes(clients: Clients) -> dict[str, Note]:
    """Return what is noted of each file: `database/host-process-…` -> note; one round trip. Raises FrontierError."""
    client: Any = clients(SPOOLS)
    with translated(clients.where):
        notes = client.hgetall(SPOOLS)
    return {name.decode(): Note(*map(int, note.split())) for name, note in sorted(notes.items())}
