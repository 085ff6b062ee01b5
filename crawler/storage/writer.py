"""A batch of documents on its way, whatever happens to MongoDB meanwhile, until it is durable: there, or in the spool.

While MongoDB is away, steps down, is full or refuses the account, a batch goes to the spool; where there is none, or no
room in it, the batch is tried again until MongoDB takes it.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pymongo.errors import PyMongoError

from crawler.storage.destination import Destination
from crawler.storage.documents import Document, Draft, RawPage, encode_pages
from crawler.storage.spool import Spool

#: The first pause after a failure, and the longest.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


class Writer:
    """Write batches. Of no use after `close`.

    count(name, number) is told what was done: `flushes`, `flush_seconds`, `flush_documents`.
    """

    def __init__(self, destination: Destination, spool: Spool | None, count: Callable[[str, float], Any]) -> None:
        self._destination = destination
        self._spool = spool
        self._count = count
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="storage")
        #: Of what is being tried, until when MongoDB may answer.
        self._limits: set[asyncio.Timeout] = set()
        self._is_leaving = False

    async def write(self, drafts: Sequence[Draft]) -> None:
        """Return when each of *drafts* is durable, or set aside in the collection of rejects.

        Whatever happens, it goes on trying; cancel it to give up.
        """
        begin_s = time.monotonic()
        groups = await self._encode(drafts)
        pauses = Pauses()
        while groups:
            if self._destination.is_away or self._is_leaving:
                if self._spool is not None and await self._spool.keep(groups):
                    break
                await pauses.next()
            collection, documents = next(iter(groups.items()))
            if await self._is_stored(collection, documents):
                del groups[collection]
        self._count("flushes", 1)
        self._count("flush_seconds", time.monotonic() - begin_s)
        self._count("flush_documents", len(drafts))

    def leave(self) -> None:
        """Wait for MongoDB no longer: what it has not taken goes to the spool."""
        self._is_leaving = True
        for limit in self._limits:
            limit.reschedule(0)

    def close(self) -> None:
        """End its thread."""
        self._encoder.shutdown(wait=False)

    async def _is_stored(self, collection: str, documents: Sequence[Document]) -> bool:
        limit = asyncio.timeout(None)
        self._limits.add(limit)
        try:
            async with limit:
                await self._destination.store(collection, documents)
        except (PyMongoError, TimeoutError):
            return False
        finally:
            self._limits.discard(limit)
        return True

    async def _encode(self, drafts: Sequence[Draft]) -> dict[str, list[Document]]:
        """Return the documents by collection, first the pages, which are compressed in a thread."""
        pages = [draft for draft in drafts if isinstance(draft, RawPage)]
        groups: defaultdict[str, list[Document]] = defaultdict(list)
        if pages:
            for document in await asyncio.get_running_loop().run_in_executor(self._encoder, encode_pages, pages):
                groups[document.collection].append(document)
        for draft in drafts:
            if isinstance(draft, Document):
                groups[draft.collection].append(draft)
        return groups


class Pauses:
    """Wait between tries: longer each time, and never as long as others do."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    async def next(self) -> None:
        """Wait."""
        await asyncio.sleep(self._next_s * random.uniform(0.5, 1))
        self._next_s = min(2 * self._next_s, LONGEST_PAUSE_S)
