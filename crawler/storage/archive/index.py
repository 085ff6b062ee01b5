"""Where each page is in its WARC file: a text file beside it, a JSON object a line, the first one a summary.

It is made from what was read back from the finished file, so what it names can be read. A file that has lost its index
is read through instead.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO

import msgspec

from crawler.errors import ArchiveError
from crawler.storage.archive.records import Page

SUFFIX = ".index.jsonl"

_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Say where a page is, and enough of it to choose."""

    fingerprint: str
    url: str
    crawled_at: datetime
    status: int
    #: SHA-256 of the body, in hexadecimal digits.
    checksum: str
    body_bytes: int
    #: Of its records together, in the WARC file.
    offset: int
    length: int
    #: Where it is another one.
    final_url: str = ""

    @classmethod
    def of(cls, page: Page, offset: int, length: int) -> "Entry":
        """Describe a page at a place."""
        document = page.document
        return cls(
            fingerprint=document["_id"].hex(),
            url=document["url"],
            crawled_at=page.crawled_at,
            status=document["status"],
            checksum=document["checksum"].hex(),
            body_bytes=len(page.body),
            offset=offset,
            length=length,
            final_url="" if page.url == document["url"] else page.url,
        )

    def is_of(self, key: str) -> bool:
        """Tell whether it is the page that *key* names: a URL, or a fingerprint."""
        return key in (self.fingerprint, self.url, self.final_url)


class Summary(msgspec.Struct, frozen=True):
    """Say what a file holds."""

    file: str
    pages: int
    size_bytes: int
    body_bytes: int
    oldest: datetime
    newest: datetime


@dataclass
class Tally:
    """Count pages, and sum them up so that two equal tallies are of equal pages in the same order."""

    pages: int = 0
    body_bytes: int = 0
    oldest: datetime = _LATEST
    newest: datetime = _EARLIEST
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, page: Page) -> None:
        """Count a page. O(bytes)."""
        self.pages += 1
        self.body_bytes += len(page.body)
        self.oldest = min(self.oldest, page.crawled_at)
        self.newest = max(self.newest, page.crawled_at)
        self._digest.update(page.digest())

    def summary(self, file: str, size_bytes: int) -> Summary:
        """Return what a file of these pages holds."""
        return Summary(file, self.pages, size_bytes, self.body_bytes, self.oldest, self.newest)

    def is_of_the_same_as(self, other: "Tally") -> bool:
        """Tell whether the same pages were counted."""
        return (self.pages, self._digest.digest()) == (other.pages, other._digest.digest())


def write_index(stream: IO[bytes], summary: Summary, entries: Iterable[Entry]) -> None:
    """Write an index, entry by entry."""
    encode = msgspec.json.Encoder().encode
    stream.write(encode(summary) + b"\n")
    for entry in entries:
        stream.write(encode(entry) + b"\n")


def read_summary(stream: IO[bytes]) -> Summary:
    """Return the summary. Raises ArchiveError when it is none."""
    try:
        return msgspec.json.decode(stream.readline(), type=Summary)
    except msgspec.DecodeError as error:
        raise ArchiveError(f"its index begins with no summary ({error})") from None


def read_entries(stream: IO[bytes], key: str = "") -> Iterator[Entry]:
    """Yield the entries, those that *key* names if it is given. Raises ArchiveError when the index is damaged."""
    pages = read_summary(stream).pages
    decoder = msgspec.json.Decoder(Entry)
    # Most lines are of other pages: what they can't hold need not be decoded.
    wanted = msgspec.json.encode(key)[1:-1]
    count = 0
    try:
        for line in stream:
            count += 1
            if wanted in line and (entry := decoder.decode(line)) and (not key or entry.is_of(key)):
                yield entry
    except msgspec.DecodeError as error:
        raise ArchiveError(f"line {count + 1} of its index is damaged ({error})") from None
    if count != pages:
        raise ArchiveError(f"its index has {count:,} pages instead of {pages:,}")
