"""What waits in the spool on its way to MongoDB, oldest first; so it is also seen when MongoDB is back.

A batch leaves the spool only after MongoDB has acknowledged it, and so may be written twice: merge.py makes that, and
that it comes late, harmless.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pymongo.errors import PyMongoError

from crawler.errors import SpoolError
from crawler.storage.destination import Destination
from crawler.storage.spool import Spool
from crawler.storage.spoolfile import Entry
from crawler.storage.writer import Pauses

logger = logging.getLogger(__name__)

#: How often it is looked for what dead workers left.
ADOPT_EVERY_S = 10.0


class Replay:
    """Empty the spool whenever MongoDB takes what is in it.

    count(name, number) is told how many documents were `replayed`.
    """

    def __init__(self, spool: Spool, destination: Destination, count: Callable[[str, float], Any]) -> None:
        self._spool = spool
        self._destination = destination
        self._count = count
        self._next_adoption_s = 0.0
        #: Set whenever a batch has left the spool.
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Go on until cancelled, which is possible at any moment."""
        pauses = Pauses()
        while True:
            try:
                entry = await self._next()
                await self._destination.store(entry.documents[0].collection, entry.documents)
                await self._spool.remove(entry)
            except PyMongoError:
                await pauses.next()
            except SpoolError as error:
                logger.error("The spool can't be read (%s); it is tried again", error)  # noqa: TRY400 - it says it all
                await pauses.next()
            else:
                pauses = Pauses()
                self._count("replayed", len(entry.documents))
                self._moved.set()

    async def drain(self, timeout_s: float, *, wholly: bool) -> None:
        """Return when the spool is empty, or after *timeout_s*; with *wholly*, counted from the last progress."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        await self._spool.adopt()
        with suppress(TimeoutError):
            while self._spool.documents:
                self._moved.clear()
                async with asyncio.timeout_at(deadline_s):
                    await self._moved.wait()
                if wholly:
                    deadline_s = loop.time() + timeout_s

    async def _next(self) -> Entry:
        """Wait for something to do."""
        while True:
            if (left_s := self._next_adoption_s - time.monotonic()) <= 0:
                await self._spool.adopt()
                self._next_adoption_s = time.monotonic() + (left_s := ADOPT_EVERY_S)
            self._spool.filled.clear()
            if entry := await self._spool.oldest():
                return entry
            with suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(left_s):
                    await self._spool.filled.wait()
