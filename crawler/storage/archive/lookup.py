"""Pages found in the archive, and put back into MongoDB."""

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from crawler.errors import ArchiveError
from crawler.storage.archive.index import Entry, Summary, Tally, read_entries, read_summary
from crawler.storage.archive.place import WARC, Place
from crawler.storage.archive.records import Page, read_pages

#: What goes back to MongoDB in one call at most.
BATCH_DOCS, BATCH_BYTES = 500, 8 << 20

_DUPLICATE_KEY = 11000
_FINGERPRINT = re.compile("[0-9a-fA-F]{40}")


class Found(NamedTuple):
    """Name the file that holds a page, and where in it."""

    file: str
    entry: Entry


class Restored(msgspec.Struct):
    """Say what was done."""

    put_back: int = 0
    #: Pages that MongoDB has, this version or a later one: they stay as they are.
    there: int = 0


def summaries(place: Place) -> Iterator[Summary]:
    """Yield what each file holds, oldest first. Reads a line a file, and the whole of a file without an index."""
    for name in place.names():
        if index := place.index_of(name):
            with place.reading(index) as stream:
                summary = read_summary(stream)
        else:
            tally = Tally()
            with place.reading(name) as stream:
                for page, _, _ in read_pages(stream):
                    tally.add(page)
            summary = tally.summary(name, place.size_bytes(name))
        yield summary


def find(place: Place, key: str) -> list[Found]:
    """Return the versions of the pages that *key* (a URL or a fingerprint) names, newest first. Reads all indexes."""
    key = key.lower() if _FINGERPRINT.fullmatch(key) else key
    found = [Found(name, entry) for name in place.names() for entry in _entries(place, name, key)]
    return sorted(found, key=lambda one: one.entry.crawled_at, reverse=True)


def load(place: Place, found: Found) -> Page:
    """Read one page. O(its bytes). Raises ArchiveError."""
    with place.reading(found.file) as stream:
        stream.seek(found.entry.offset)
        records = BytesIO(stream.read(found.entry.length))
        for page, _, _ in read_pages(records):
            return page
        raise ArchiveError(f"no page at byte {found.entry.offset:,}, where its index says that there is one")


def restore(place: Place, keys: Iterable[str], pages: Collection[dict[str, Any]]) -> Restored:
    """Put pages back that MongoDB lacks: those that each of *keys* names, a file, a URL or a fingerprint.

    Of several versions of a page the newest is put back; that of a later file counts as newer. Raises ArchiveError
    where a key names nothing.
    """
    done = Restored()
    # What is there first stays: so pages that are named themselves, and then files, the latest first.
    for key in sorted(keys, key=lambda key: (not key.endswith(WARC), key), reverse=True):
        _insert(pages, _named(place, key), done)
    return done


def _named(place: Place, key: str) -> Iterator[Page]:
    if key.endswith(WARC):
        with place.reading(key) as stream:
            for page, _, _ in read_pages(stream):
                yield page
        return
    newest: dict[str, Found] = {}
    for found in find(place, key):
        newest.setdefault(found.entry.fingerprint, found)
    if not newest:
        raise ArchiveError(f"{key}: not in the archive at {place.url}")
    for found in newest.values():
        yield load(place, found)


def _entries(place: Place, name: str, key: str) -> Iterator[Entry]:
    if index := place.index_of(name):
        with place.reading(index) as stream:
            yield from read_entries(stream, key)
        return
    with place.reading(name) as stream:
        for page, offset, length in read_pages(stream):
            if (entry := Entry.of(page, offset, length)).is_of(key):
                yield entry


def _insert(pages: Collection[dict[str, Any]], found: Iterable[Page], done: Restored) -> None:
    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for page in found:
        batch.append(page.whole())
        size_bytes += len(batch[-1]["body"])
        if len(batch) == BATCH_DOCS or size_bytes >= BATCH_BYTES:
            _insert_batch(pages, batch, done)
            batch, size_bytes = [], 0
    if batch:
        _insert_batch(pages, batch, done)


def _insert_batch(pages: Collection[dict[str, Any]], batch: list[dict[str, Any]], done: Restored) -> None:
    try:
        pages.insert_many(batch, ordered=False)
        there = 0
    except BulkWriteError as error:
        failures = error.details["writeErrors"]
        if error.details["writeConcernErrors"] or any(failure["code"] != _DUPLICATE_KEY for failure in failures):
            raise
        there = len(failures)
    done.there += there
    done.put_back += len(batch) - there
