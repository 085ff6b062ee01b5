"""Pages, items and rejects as the documents that MongoDB gets; docs/storage.md describes their fields.

A document is encoded once, to BSON, and stays bytes from then on: what was accepted can't change any more, its size is
known, and it can be written anywhere.
"""

import hashlib
import reprlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

import bson
import msgspec
import zstandard

from crawler.errors import NotStorableError
from crawler.storage.itemtypes import RAW_PAGES, REJECTS, fields_of, type_of
from crawler.storage.values import clean_text, to_document

#: 16 MB is what a document may take; the difference is room for the update that may wrap it.
MAX_DOCUMENT_BYTES = (16 << 20) - (64 << 10)
#: What a document costs in memory besides its bytes, about.
OVERHEAD_BYTES = 1024
#: Of 1 to 22: real pages of 29 KB shrink to 29 % in 0.09 ms each; at 1 to 30 % in 0.06 ms, at 6 to 27 % in 0.25 ms.
ZSTD_LEVEL = 3

#: Fields that the storage adds to every item; an item's own field of that name gets a `_` behind it.
ITEM_FIELDS = frozenset({"_id", "_raw_id", "_checksum", "source_url", "crawled_at", "parsed_at", "updated_at"})

# For checksums, since it is much quicker than BSON.
_packed = msgspec.msgpack.Encoder(
    enc_hook=lambda value: value.bid if isinstance(value, bson.Decimal128) else repr(value)
).encode

_excerpt = reprlib.Repr()
_excerpt.maxdict = _excerpt.maxlist = 20
_excerpt.maxstring = _excerpt.maxother = 300
_MAX_EXCERPT = 4000


class Draft(Protocol):
    """What is on its way to MongoDB."""

    @property
    def size_bytes(self) -> int:
        """Return what it takes in memory, about."""

    def document(self) -> "Document":
        """Return the document to write; costs milliseconds for a large page. Raises NotStorableError."""


class Document(msgspec.Struct, frozen=True, gc=False):
    """One encoded document, and the collection where it belongs."""

    collection: str
    raw: bytes

    @property
    def size_bytes(self) -> int:
        """Return what it takes in memory, about."""
        return len(self.raw) + OVERHEAD_BYTES

    def document(self) -> "Document":
        """Return itself."""
        return self


class RawPage(msgspec.Struct, frozen=True):
    """A page as it came, to be compressed and encoded off the event loop."""

    #: The request's fingerprint: two POSTs to one URL are two pages.
    key: bytes
    url: str
    final_url: str
    status: int
    #: In their order on the line; a name may come several times.
    headers: list[tuple[bytes, bytes]]
    body: bytes
    flags: list[str]
    spider: str
    #: Which crawl of the spider fetched it; `fetches` counts crawls.
    crawl: str
    crawled_at: datetime
    #: The request that it answers (origin.py); None where that is no data.
    seed: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """Return what it takes in memory, about."""
        return len(self.body) + sum(len(name) + len(value) + 100 for name, value in self.headers) + OVERHEAD_BYTES

    def document(self) -> Document:
        """Compress and encode the page. O(bytes). Raises NotStorableError when it takes more than a document may."""
        fields = to_document(
            {
                "url": self.url,
                "final_url": self.final_url,
                "status": self.status,
                "headers": _headers(self.headers),
                "flags": self.flags,
                "seed": self.seed,
                "spider": self.spider,
                "crawl": self.crawl,
                "crawled_at": self.crawled_at,
                "changed_at": self.crawled_at,
                "fetches": 1,
                "checksum": hashlib.sha256(self.body).digest(),
                "body": zstandard.compress(self.body, ZSTD_LEVEL),
            }.items()
        )
        return Document(RAW_PAGES, _sized(bson.encode({"_id": self.key, **fields})))


def body_of(raw_page: Mapping[str, Any]) -> bytes:
    """Return the body of a document of `raw_pages`, as it came."""
    return zstandard.decompress(raw_page["body"])


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where an item comes from: the page, when it was fetched, and the item's place on it."""

    url: str
    crawled_at: datetime
    #: The page's fingerprint; None for what comes from no page.
    page: bytes | None
    place: int
    #: Whether the page is in `raw_pages`.
    is_kept: bool = True
    #: When the page was parsed, where that was not right after it was fetched.
    parsed_at: datetime | None = None

    @property
    def key(self) -> dict[str, Any] | None:
        """Return the `_id` of an item that has no natural key."""
        return None if self.page is None else {"page": self.page, "item": self.place}


def item_document(item: Any, source: Source) -> Document:
    """Encode an item. O(its values). Raises NotStorableError, whatever is wrong with it."""
    try:
        kind = type_of(item)
        own = to_document(fields_of(item), taken=ITEM_FIELDS)
        checksum = hashlib.sha256(_packed(own)).digest()
        key = kind.key_of(own)
        meta = {
            "_id": (source.key or {"content": checksum}) if key is None else key,
            "_raw_id": source.page if source.is_kept else None,
            "_checksum": checksum,
            "source_url": clean_text(source.url),
            "crawled_at": source.crawled_at,
            "parsed_at": source.parsed_at or source.crawled_at,
            "updated_at": source.parsed_at or source.crawled_at,
        }
        return Document(kind.collection, _sized(bson.encode(meta | own)))
    except NotStorableError:
        raise
    except Exception as error:
        raise NotStorableError(f"{type(error).__name__}: {error}") from error


def reject_item(item: Any, source: Source, reason: str) -> Document:
    """Describe an item that can't be stored, for the collection of rejects."""
    own_key = source.key or {"content": hashlib.sha256(_shown(item).encode()).digest()}
    return _reject(type_of(item).collection, own_key, source.url, source.crawled_at, reason, _shown(item))


def reject_page(page: RawPage, reason: str) -> Document:
    """Describe a page that can't be stored."""
    return _reject(RAW_PAGES, page.key, page.url, page.crawled_at, reason, "")


def reject_document(document: Document, reason: str) -> Document:
    """Describe a document that MongoDB refused."""
    fields = bson.decode(document.raw)
    url = fields["url" if document.collection == RAW_PAGES else "source_url"]
    return _reject(document.collection, fields["_id"], url, fields["crawled_at"], reason, _shown(fields))


def _reject(collection: str, key: object, url: str, crawled_at: datetime, reason: str, shown: str) -> Document:
    fields = {
        "_id": {"collection": collection, "key": key},
        "reason": clean_text(reason)[:_MAX_EXCERPT],
        "url": clean_text(url)[:_MAX_EXCERPT],
        "excerpt": shown,
        "crawled_at": crawled_at,
    }
    return Document(REJECTS, bson.encode(fields))


def _headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Return the headers as text that holds every byte: Latin-1."""
    named: dict[str, list[str]] = {}
    for name, value in headers:
        named.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return named


def _sized(raw: bytes) -> bytes:
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise NotStorableError(f"it takes {len(raw):,} bytes as a document, and MongoDB takes {MAX_DOCUMENT_BYTES:,}")
    return raw


def _shown(value: object) -> str:
    try:
        return clean_text(_excerpt.repr(value))[:_MAX_EXCERPT]
    except Exception:  # noqa: BLE001 - what can't be stored often can't be shown
        return f"a {type(value).__qualname__} that can't be shown"
