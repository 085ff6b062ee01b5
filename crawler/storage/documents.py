"""Pages, items and rejects as the documents that MongoDB gets; docs/storage.md describes their fields.

What was accepted can't change any more, and BSON can hold it. A page, and an item that is large, are encoded at once; a
small item stays a dict of plain values, as PyMongo encodes those of a batch in less time than a call for each takes.
"""

import hashlib
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import bson
import msgspec
import zstandard
from bson.raw_bson import RawBSONDocument

from crawler.errors import NotStorableError
from crawler.storage.itemtypes import ITEM_FIELDS, RAW_PAGES, REJECTS, fields_of, type_of
from crawler.storage.values import Conversion, clean_text, to_document

#: 16 MB is what a document may take; the difference is room for the update that may wrap it.
MAX_DOCUMENT_BYTES = (16 << 20) - (64 << 10)
#: What an item may take packed, and how many values it may have, to stay as it is.
_SMALL_BYTES, _FEW_VALUES = 4096, 100
#: What each value of such an item costs in memory besides, and each character of a text that is not ASCII, about.
_VALUE_BYTES, _WIDE_BYTES = 128, 5
#: What a document costs in memory besides its bytes, about.
OVERHEAD_BYTES = 1024
#: Of 1 to 22: real pages of 29 KB shrink to 29 % in 0.09 ms each; at 1 to 30 % in 0.06 ms, at 6 to 27 % in 0.25 ms.
ZSTD_LEVEL = 3

_OF_BSON: dict[type, Callable[[Any], object]] = {
    bson.Decimal128: lambda value: value.bid,
    bson.ObjectId: lambda value: value.binary,
    bson.Binary: lambda value: (value.subtype, bytes(value)),
}
# For checksums and sizes, since it is much quicker than BSON.
_packed = msgspec.msgpack.Encoder(enc_hook=lambda value: _OF_BSON[type(value)](value)).encode

_excerpt = reprlib.Repr()
_excerpt.maxdict = _excerpt.maxlist = 20
_excerpt.maxstring = _excerpt.maxother = 300
_MAX_EXCERPT = 4000


class _Brief:
    """What is not shown: PyMongo puts every document that is there already into the text of an error."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Unencoded(_Brief, dict[str, Any]):
    """The fields of a document that is not encoded yet."""

    __slots__ = ()


class Encoded(_Brief, RawBSONDocument):
    """The fields of a document as BSON."""

    __slots__ = ()


class Document(msgspec.Struct, frozen=True, gc=False):
    """One document that BSON can hold, and the collection where it belongs."""

    collection: str
    fields: Unencoded | Encoded
    #: What it takes in memory, about.
    size_bytes: int

    @classmethod
    def encoded(cls, collection: str, raw: bytes) -> "Document":
        """Return the document that *raw* is."""
        return cls(collection, Encoded(raw), len(raw) + OVERHEAD_BYTES)

    @property
    def raw(self) -> bytes:
        """Return its BSON. O(bytes) where it is not encoded yet."""
        return bytes(self.fields.raw) if isinstance(self.fields, Encoded) else bson.encode(self.fields)


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


#: What is on its way to MongoDB.
Draft = RawPage | Document


def encode_pages(pages: Sequence[RawPage]) -> list[Document]:
    """Compress and encode pages; describe those that take more than a document may. O(bytes); for a thread.

    All bodies are compressed in one call, without Python's lock: getting it back after each page takes a thread
    milliseconds beside a busy event loop, and holds that up as often.
    """
    compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    # An empty body is taken beside others only.
    bodies = compressor.multi_compress_to_buffer([*(page.body for page in pages), b"end"])
    documents = []
    for number, page in enumerate(pages):
        try:
            documents.append(_page_document(page, bodies[number].tobytes()))
        except NotStorableError as error:
            documents.append(_reject(RAW_PAGES, page.key, page.url, page.crawled_at, str(error), ""))
    return documents


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
        conversion = Conversion()
        own = conversion.document(fields_of(item), taken=ITEM_FIELDS)
        packed = _packed(own)
        checksum = hashlib.sha256(packed).digest()
        key = kind.key_of(own)
        parsed_at = source.parsed_at or source.crawled_at
        document = {
            "_id": (source.key or {"content": checksum}) if key is None else key,
            "_raw_id": source.page if source.is_kept else None,
            "_checksum": checksum,
            "source_url": clean_text(source.url),
            "crawled_at": source.crawled_at,
            "parsed_at": parsed_at,
            "updated_at": parsed_at,
            **own,
        }
        size_bytes = len(packed) + len(source.url)
        if size_bytes <= _SMALL_BYTES and conversion.values <= _FEW_VALUES:
            size_bytes += conversion.values * _VALUE_BYTES + conversion.wide_characters * _WIDE_BYTES + OVERHEAD_BYTES
            return Document(kind.collection, Unencoded(document), size_bytes)
        return Document.encoded(kind.collection, _sized(bson.encode(document)))
    except NotStorableError:
        raise
    except Exception as error:
        raise NotStorableError(f"{type(error).__name__}: {error}") from error


def reject_item(item: Any, source: Source, reason: str) -> Document:
    """Describe an item that can't be stored, for the collection of rejects."""
    own_key = source.key or {"content": hashlib.sha256(_shown(item).encode()).digest()}
    return _reject(type_of(item).collection, own_key, source.url, source.crawled_at, reason, _shown(item))


def reject_document(document: Document, reason: str) -> Document:
    """Describe a document that MongoDB refused."""
    fields = dict(document.fields) if isinstance(document.fields, Unencoded) else bson.decode(document.raw)
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
    return Document.encoded(REJECTS, bson.encode(fields))


def _page_document(page: RawPage, body: bytes) -> Document:
    fields = to_document(
        {
            "url": page.url,
            "final_url": page.final_url,
            "status": page.status,
            "headers": _headers(page.headers),
            "flags": page.flags,
            "seed": page.seed,
            "spider": page.spider,
            "crawl": page.crawl,
            "crawled_at": page.crawled_at,
            "changed_at": page.crawled_at,
            "fetches": 1,
            "checksum": hashlib.sha256(page.body).digest(),
            "body": body,
        }
    )
    return Document.encoded(RAW_PAGES, _sized(bson.encode({"_id": page.key, **fields})))


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
