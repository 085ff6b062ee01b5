"""Pages out of MongoDB into WARC files, so that at no instant a page is in neither.

A file is written, read back from where it was written to, and compared page by page; then it gets its index and its
name; and only then its pages are deleted, each only if it still is what was archived. So a crash leaves pages in both
places at worst; those that are still in MongoDB are archived again by the next run.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec
from bson import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteOne
from pymongo.collection import Collection

from crawler.errors import ArchiveError
from crawler.storage.archive.index import SUFFIX, Entry, Summary, Tally, read_entries, write_index
from crawler.storage.archive.place import OPEN, WARC, Place
from crawler.storage.archive.records import Page, PageWriter, read_pages

#: Pages that are deleted in one call.
BATCH = 500
#: Pages that can't be archived before it is taken for the archive's fault.
MAX_UNFIT = 1000

_AWARE: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True, tzinfo=UTC)
_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


class Moved(msgspec.Struct):
    """Say what was done."""

    files: list[str] = []
    pages: int = 0
    size_bytes: int = 0
    #: Archived, but not deleted, as they had been fetched again meanwhile.
    fetched_again: int = 0
    #: Fingerprint -> why this page can't be archived; it stays in MongoDB.
    unfit: dict[str, str] = {}


class Waiting(msgspec.Struct):
    """Say what there is to do."""

    pages: int = 0
    size_bytes: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None


class Mover:
    """Archive the pages that were fetched before *before*, in files of about *file_bytes* each.

    tell(pages) is called after each page that was written, with the number of them in all files. Memory: one page, and
    one reply of MongoDB.
    """

    def __init__(
        self,
        pages: Collection[dict[str, Any]],
        place: Place,
        before: datetime,
        *,
        file_bytes: int,
        tell: Callable[[int], None],
    ) -> None:
        self._pages = pages
        self._place = place
        self._span = {"$lt": before}
        self._file_bytes = file_bytes
        self._tell = tell
        self._unfit: dict[str, str] = {}

    def waiting(self) -> Waiting:
        """Return how much there is to archive. One pass over the pages, in the server."""
        sums = {
            "_id": None,
            "pages": {"$sum": 1},
            "size_bytes": {"$sum": {"$bsonSize": "$$ROOT"}},
            "oldest": {"$min": "$crawled_at"},
            "newest": {"$max": "$crawled_at"},
        }
        pages = self._pages.with_options(codec_options=_AWARE)
        found = list(pages.aggregate([{"$match": {"crawled_at": self._span}}, {"$group": sums}]))
        return msgspec.convert(found[0], Waiting) if found else Waiting()

    def run(self) -> Moved:
        """Archive all of them. Raises ArchiveError or PyMongoError; what was finished until then is."""
        moved = Moved(unfit=self._unfit)
        while summary := self._write_file(moved.pages):
            deleted = self._delete(summary.file)
            moved.files.append(summary.file)
            moved.pages += summary.pages
            moved.size_bytes += summary.size_bytes
            moved.fetched_again += summary.pages - deleted
            # On from there: so it ends, whatever could not be deleted.
            self._span = {"$gte" if deleted else "$gt": summary.newest, "$lt": self._span["$lt"]}
        return moved

    def _write_file(self, before: int) -> Summary | None:
        """Write the next file, verify it, and give it its index and name; None when no page is left."""
        with closing(self._oldest()) as pages:
            page = next(pages, None)
            if page is None:
                return None
            name = f"pages-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}-{os.urandom(4).hex()}{WARC}"
            written = Tally()
            with self._place.writing(name + OPEN) as stream:
                writer = PageWriter(stream, name)
                while page is not None:
                    writer.write(page)
                    written.add(page)
                    self._tell(before + written.pages)
                    page = next(pages, None) if stream.tell() < self._file_bytes else None
        summary = self._verify(name, written)
        self._place.finish(name + OPEN)
        return summary

    def _oldest(self) -> Generator[Page, None, None]:
        raw_pages = self._pages.with_options(codec_options=_RAW)
        with raw_pages.find({"crawled_at": self._span}, sort=[("crawled_at", 1)], batch_size=BATCH) as cursor:
            for raw in cursor:
                key = raw["_id"].hex() if isinstance(raw["_id"], bytes) else repr(raw["_id"])
                if key in self._unfit:
                    continue
                try:
                    page = Page.of(raw)
                except ArchiveError as error:
                    self._unfit[key] = str(error)
                    if len(self._unfit) > MAX_UNFIT:
                        raise ArchiveError(
                            f"more than {MAX_UNFIT} pages can't be archived; the last: {error}"
                        ) from error
                else:
                    yield page

    def _verify(self, name: str, written: Tally) -> Summary:
        """Read the file back, compare it to what was written, and write its index. Raises ArchiveError."""
        there = Tally()
        summary = written.summary(name, self._place.size_bytes(name + OPEN))

        def entries() -> Iterator[Entry]:
            with self._place.reading(name + OPEN) as stream:
                for page, offset, length in read_pages(stream):
                    there.add(page)
                    yield Entry.of(page, offset, length)
            if not there.is_of_the_same_as(written):
                raise ArchiveError(
                    f"{self._place.url}/{name}: {there.pages:,} pages were read back of {written.pages:,} that were "
                    "written, or they differ; nothing of them was deleted"
                )

        try:
            with self._place.writing(name + SUFFIX) as stream:
                write_index(stream, summary, entries())
        except BaseException:
            self._place.remove(name + OPEN)
            raise
        return summary

    def _delete(self, name: str) -> int:
        """Delete the pages that are in a file, unless they are others by now; return how many."""
        deleted = 0
        with self._place.reading(name + SUFFIX) as stream:
            deletions = (_deletion(entry) for entry in read_entries(stream))
            while batch := list(islice(deletions, BATCH)):
                deleted += self._pages.bulk_write(batch, ordered=False).deleted_count
        return deleted


def _deletion(entry: Entry) -> DeleteOne:
    archived = {"crawled_at": entry.crawled_at, "checksum": bytes.fromhex(entry.checksum)}
    return DeleteOne({"_id": bytes.fromhex(entry.fingerprint), **archived})
