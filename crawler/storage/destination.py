"""Where documents are to be in the end: MongoDB. Each batch is tried, and what that says of MongoDB is kept.

Insert first, since most documents are new and an insert costs a third of an upsert; what the index on `_id` refuses is
merged by an update. A document that MongoDB refuses for what it is goes to the collection of rejects, alone. Everything
here may be repeated.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bson.errors import BSONError
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError, ServerSelectionTimeoutError

from crawler.config import Config
from crawler.storage.client import open_database, reason
from crawler.storage.documents import Document, reject_document
from crawler.storage.itemtypes import RAW_PAGES, REJECTS
from crawler.storage.merge import merge

logger = logging.getLogger(__name__)

GOODBYE_S = 2.0

_DUPLICATE_KEY = 11000
#: Errors of a single write that are the server's fault and pass: it is shutting down, stepping down, interrupted,
#: out of time, out of disk, or does not know the account.
_PASSING = frozenset(
    {
        *(6, 7, 89, 9001),  # the network
        *(91, 133, 134, 189, 10058, 10107, 11600, 11601, 11602, 13435, 13436),  # no primary
        *(24, 46, 50, 64, 90, 112, 202, 262, 365, 462),  # locks, time limits, too much to do
        *(11, 13, 18, 33, 391),  # the account
        *(8000, 14031),  # the disk, the quota
    }
)

Refusals = list[tuple[Document, str]]


class Destination:
    """Write to the database that *config* names. Raises ConfigError.

    count(name, number) is told what was done: `pages_stored`, `items_stored`, `rejected`, `retries`.
    """

    def __init__(self, config: Config, count: Callable[[str, float], Any]) -> None:
        # What fails is repeated here. What the driver might repeat once, the server would keep books of: a sixth of its
        # work.
        self.database = open_database(config, retryWrites=False)
        self._count = count
        self._away_since: float | None = None

    @property
    def is_away(self) -> bool:
        """Tell whether MongoDB did not take what it was given last."""
        return self._away_since is not None

    async def store(self, collection: str, documents: Sequence[Document]) -> None:
        """Return when each document is durable there, or set aside in the collection of rejects.

        What is broken off is tried once more, if MongoDB was there before: the line was dropped, or there will be
        another primary within STORE_CONNECT_S. Raises PyMongoError when all of them are to be written again later.
        """
        try:
            try:
                refused = await self._store(collection, documents)
            except ServerSelectionTimeoutError:
                raise
            except PyMongoError:
                if self.is_away:
                    raise
                refused = await self._store(collection, documents)
            # That MongoDB takes the note shows that it was the document's fault.
            await self._set_aside(refused)
        except PyMongoError as error:
            self._count("retries", 1)
            self.note_away(error)
            raise
        if self._away_since is not None:
            logger.info("MongoDB takes documents again, after %.0f s", time.monotonic() - self._away_since)
            self._away_since = None
        names = {RAW_PAGES: "pages_stored", REJECTS: "rejected"}
        self._count(names.get(collection, "items_stored"), len(documents) - len(refused))

    def note_away(self, error: PyMongoError) -> None:
        """Note that MongoDB takes nothing now."""
        if self._away_since is None:
            self._away_since = time.monotonic()
            logger.warning("MongoDB does not take documents (%s): they wait, and are tried again", reason(error))

    async def close(self) -> None:
        """Close the connection."""
        client = self.database.client
        try:
            async with asyncio.timeout(GOODBYE_S):
                await client.close()
        except TimeoutError:
            # It tells the server that its sessions end, once, and one that hangs does not answer.
            await client.close()

    async def _store(self, collection: str, documents: Sequence[Document]) -> Refusals:
        """Write documents to one collection; return those that MongoDB refuses for what they are."""
        try:
            return await self._insert_or_merge(collection, documents)
        except OperationFailure as error:
            if isinstance(error, BulkWriteError) or error.code in _PASSING or error.timeout:
                raise
            if len(documents) == 1:
                return [(documents[0], reason(error))]
        except (BSONError, OverflowError) as error:  # what was taken can be encoded, but who knows
            if len(documents) == 1:
                return [(documents[0], f"{type(error).__name__}: {error}")]
        # The server takes the whole command for wrong: whose fault it is shows one by one.
        return [refusal for document in documents for refusal in await self._store(collection, [document])]

    async def _insert_or_merge(self, collection: str, documents: Sequence[Document]) -> Refusals:
        there = self.database[collection]
        try:
            await there.insert_many([document.fields for document in documents], ordered=False)
        except BulkWriteError as error:
            existing, refused = _sort_out(error, documents)
        else:
            return []
        if existing and collection != REJECTS:
            try:
                await there.bulk_write([merge(document) for document in existing], ordered=False)
            except BulkWriteError as error:
                refused += _sort_out(error, existing)[1]
        return refused

    async def _set_aside(self, refused: Refusals) -> None:
        notes = [reject_document(document, why) for document, why in refused if document.collection != REJECTS]
        if notes:
            await self._store(REJECTS, notes)
            self._count("rejected", len(notes))


def _sort_out(error: BulkWriteError, documents: Sequence[Document]) -> tuple[list[Document], Refusals]:
    """Return the documents whose `_id` is there already, and those that are refused for what they are.

    Raises the error when the server is at fault.
    """
    failures: list[Mapping[str, Any]] = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(failure["code"] in _PASSING for failure in failures):
        raise error
    existing: list[Document] = []
    refused: Refusals = []
    for failure in failures:
        document = documents[failure["index"]]
        # A unique index of the user's own may refuse it too.
        if failure["code"] == _DUPLICATE_KEY and "_id" in failure.get("keyPattern", {"_id": 1}):
            existing.append(document)
        else:
            refused.append((document, failure["errmsg"]))
    return existing, refused
