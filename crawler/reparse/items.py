"""The storage of a run: items are compared with those that are there, then stored; pages are left as they are."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError
from scrapy.crawler import Crawler
from scrapy.http import Response

from crawler.config import Config
from crawler.reparse.run import Run
from crawler.storage import Storage
from crawler.storage.client import greet, unreachable
from crawler.storage.destination import Destination, Refusals
from crawler.storage.documents import Document
from crawler.storage.extension import PageUnderWay
from crawler.storage.itemtypes import REJECTS
from crawler.storage.merge import ITEM_VERSION
from crawler.storage.store import Store


class ItemStorage(Storage):
    """Store the items of pages that are stored already."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__(crawler, config)
        self._reparse: Run = crawler.settings["REPARSE_RUN"]

    async def open(self) -> None:
        """Connect to MongoDB, unless that is done. Raises ConfigError or StorageError."""
        if self._store is not None:
            return
        destination = Comparison(self._config, self._count, self._reparse)
        try:
            await greet(destination.database)
        except PyMongoError as error:
            await destination.close()
            raise unreachable(self._config, error) from None
        self._store = Store(self._config, destination, None, self._count, self._on_failure)

    def adopt(self, response: Response, page: Mapping[str, Any]) -> None:
        """Have the items of *response* come from *page*, a document of `raw_pages`."""
        self._under_way[response] = PageUnderWay(
            page["_id"], page["url"], page["crawled_at"].replace(tzinfo=UTC), self._reparse.began_at, is_kept=True
        )

    def store_page(self, response: Response) -> None:  # noqa: ARG002 - the base class's
        """Count a page that is about to go to the spider; it is stored."""
        self._reparse.counts["parsed"] += 1

    def _note_lost(self, documents: int) -> None:
        why = f"MongoDB did not take the last {documents:,} items in time (STORE_CLOSE_S); the same run again does"
        self._reparse.ended = self._reparse.ended or why


class Comparison(Destination):
    """Say of each item whether it is new, changed or as it was; then write it, unless the run is a dry one."""

    def __init__(self, config: Config, count: Callable[[str, float], Any], run: Run) -> None:
        super().__init__(config, count)
        self._run = run

    async def _insert_or_merge(self, collection: str, documents: Sequence[Document]) -> Refusals:
        outcomes = [] if collection == REJECTS else await self._compare(collection, documents)
        refused = [] if self._run.is_dry else await super()._insert_or_merge(collection, documents)
        # Not before: when MongoDB was away, all of this is done again.
        self._run.counts.update(outcomes)
        if collection == REJECTS:
            for document in documents:
                note = bson.decode(document.raw)
                self._run.note_trouble("rejected", note["url"], note["reason"])
        return refused

    async def _compare(self, collection: str, documents: Sequence[Document]) -> list[str]:
        """Return for each document what it is beside the one that is there, or was until one before it came."""
        new = [RawBSONDocument(document.raw) for document in documents]
        found = self.database[collection].find(
            {"_id": {"$in": [document["_id"] for document in new]}}, dict.fromkeys(ITEM_VERSION, 1)
        )
        before: dict[bytes, Mapping[str, Any]] = {_key_of(document): document async for document in found}
        outcomes = []
        for document in new:
            outcomes.append(_outcome(document, before.get(_key_of(document))))
            if outcomes[-1] != "outdated":
                before[_key_of(document)] = document
        return outcomes


def _key_of(document: Mapping[str, Any]) -> bytes:
    return bson.encode({"": document["_id"]})


def _outcome(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    if old is None:
        return "new"
    if new["_checksum"] == old["_checksum"]:
        return "unchanged"
    return "changed" if _version_of(new) > _version_of(old) else "outdated"


def _version_of(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what `merge` compares."""
    return tuple(document.get(field) or datetime.min for field in ITEM_VERSION)  # noqa: DTZ901 - as BSON has them
