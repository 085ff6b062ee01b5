"""What is exported: the documents of one collection, those fields of them that are asked for, of a span of time."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import zstandard
from bson import CodecOptions
from bson.codec_options import DatetimeConversion
from pymongo.collection import Collection
from pymongo.database import Database

from crawler.errors import StorageError
from crawler.storage.documents import body_of
from crawler.storage.itemtypes import RAW_PAGES, REJECTS

#: Documents of one reply of MongoDB at most; 16 MB is its own limit.
BATCH = 500
BODY = "body"

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True, tzinfo=UTC, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


class Source:
    """Give the documents of a collection, as often as asked, one by one.

    *since* (inclusive) and *until* (exclusive) are about `updated_at`, when an item became what it is; for pages and
    rejects about `crawled_at`. The body of a page is left out unless *fields* names it; it comes as it was fetched.
    """

    def __init__(
        self,
        database: Database[dict[str, Any]],
        name: str,
        *,
        fields: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        """Raises StorageError where there is no such collection, naming those that there are."""
        there = collections(database)
        if name not in there:
            known = f"there are {', '.join(there)}" if there else "there is none yet"
            raise StorageError(f"no collection {name!r} in the database {database.name}: {known}")
        self._collection: Collection[dict[str, Any]] = database[name].with_options(codec_options=_CODEC)
        self._is_pages = name == RAW_PAGES
        self.fields = tuple(fields)
        span = {op: when for op, when in (("$gte", since), ("$lt", until)) if when is not None}
        changed = "crawled_at" if name in (RAW_PAGES, REJECTS) else "updated_at"
        self._query: dict[str, Any] = {changed: span} if span else {}
        if self.fields:
            self._projection = dict.fromkeys(self.fields, 1) | ({} if "_id" in self.fields else {"_id": 0})
        else:
            self._projection = {BODY: 0} if self._is_pages else {}

    def about(self) -> int | None:
        """Return how many documents there are; None where that would take counting them."""
        return None if self._query else self._collection.estimated_document_count()

    def documents(self) -> Iterator[dict[str, Any]]:
        """Read them, in the order in which they are stored. Raises PyMongoError."""
        with self._collection.find(self._query, self._projection or None, batch_size=BATCH) as cursor:
            for document in cursor:
                if self._is_pages and BODY in document:
                    document[BODY] = _body(document)
                yield {name: document[name] for name in self.fields if name in document} if self.fields else document


def _body(document: dict[str, Any]) -> bytes:
    try:
        return body_of(document)
    except zstandard.ZstdError as error:
        raise StorageError(f"the body of a page is damaged ({error}): leave `body` out of --fields") from None


def collections(database: Database[dict[str, Any]]) -> list[str]:
    """Return the names of the collections that this account may read, sorted."""
    names = database.list_collection_names(authorizedCollections=True)
    return sorted(name for name in names if not name.startswith("system."))
