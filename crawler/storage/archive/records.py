"""A page of `raw_pages` as two records of a WARC file, and back, with nothing lost.

The first record is for every tool that reads WARC: the response as HTTP has it. What that can't hold is in the second,
of type `metadata`: the whole document but its body, as MongoDB's canonical Extended JSON. A page is put back from the
second, and from the first only its body: so headers that no WARC file can hold are mended in the one and kept in the
other.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from typing import IO, Any, Self
from urllib.parse import quote

import bson
import msgspec
import zstandard
from bson import CodecOptions, json_util
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParserException
from warcio.warcwriter import WARCWriter

from crawler.errors import ArchiveError
from crawler.storage.documents import ZSTD_LEVEL, body_of
from crawler.versions import versions

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True, tzinfo=UTC)
_JSON = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: What a URL may hold as it stands in a line of headers; the rest is percent-encoded.
_URI_SAFE = "".join(map(chr, range(0x21, 0x7F))).translate({ord(c): None for c in '"<>'})
#: Headers that told how the body came, and would be untrue of the body that is stored: it is decoded.
_OF_THE_TRANSFER = {"content-encoding", "transfer-encoding", "content-length"}
_PREFIX = b"X-Crawler-"
_BODY_TYPES = ("response", "resource")
#: What warcio and others make of bytes that are no record.
_DAMAGED = (
    ArchiveLoadFailed,
    StatusAndHeadersParserException,
    BSONError,
    zlib.error,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


class _Shape(msgspec.Struct):
    """What of a document a WARC file needs, and as what."""

    fingerprint: bytes = msgspec.field(name="_id")
    url: str
    final_url: str
    status: int
    headers: dict[str, list[str]]
    crawled_at: datetime
    checksum: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Hold a document of `raw_pages` whose `body` is None in its place, and the body as it came."""

    document: dict[str, Any]
    body: bytes

    @classmethod
    def of(cls, raw: RawBSONDocument) -> Self:
        """Take a document apart. O(bytes). Raises ArchiveError when it is none of the project's, or damaged."""
        try:
            document = bson.decode(raw.raw, _CODEC)
            msgspec.convert(document, _Shape)
            body = body_of(document)
            page = cls({**document, "body": None}, body)
            if hashlib.sha256(body).digest() != document["checksum"]:
                raise ArchiveError("its body is not what its checksum says")
            if bson.encode(_parsed(page.described())) != bson.encode(page.document):
                raise ArchiveError("it holds what Extended JSON does not give back")
        except (*_DAMAGED, msgspec.ValidationError, zstandard.ZstdError) as error:
            raise ArchiveError(f"it can't be read ({type(error).__name__}: {error})") from error
        return page

    @property
    def url(self) -> str:
        """Return where the response came from."""
        return str(self.document["final_url"])

    @property
    def crawled_at(self) -> datetime:
        """Return when it was fetched."""
        moment: datetime = self.document["crawled_at"]
        return moment

    def whole(self) -> dict[str, Any]:
        """Return the document as `raw_pages` has it."""
        return {**self.document, "body": zstandard.compress(self.body, ZSTD_LEVEL)}

    def described(self) -> bytes:
        """Return all but the body as Extended JSON."""
        return json_util.dumps(self.document, json_options=_JSON, ensure_ascii=False).encode()

    def digest(self) -> bytes:
        """Return what two pages share only when they are equal to the last byte."""
        return hashlib.sha256(bson.encode(self.document) + self.document["checksum"]).digest()


class PageWriter:
    """Write pages into one WARC file, a gzip member a record."""

    def __init__(self, stream: IO[bytes], filename: str) -> None:
        self._warc = WARCWriter(stream, gzip=True, warc_version="1.1")
        info = {"software": f"seedbed/{versions()['version']}", "format": "WARC File Format 1.1"}
        self._warc.write_record(self._warc.create_warcinfo_record(filename, info))

    def write(self, page: Page) -> None:
        """Write a page. O(bytes)."""
        uri = quote(page.url, safe=_URI_SAFE)
        named = {"WARC-Date": page.crawled_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        is_http = uri.startswith(("http:", "https:"))
        response = self._warc.create_warc_record(
            uri,
            "response" if is_http else "resource",
            payload=BytesIO(page.body),
            length=len(page.body),
            warc_content_type="" if is_http else "application/octet-stream",
            warc_headers_dict=named,
            http_headers=_http_headers(page) if is_http else None,
        )
        described = page.described()
        metadata = self._warc.create_warc_record(
            uri,
            "metadata",
            payload=BytesIO(described),
            length=len(described),
            warc_content_type="application/json",
            warc_headers_dict=named | {"WARC-Refers-To": response.rec_headers.get_header("WARC-Record-ID")},
        )
        self._warc.write_record(response)
        self._warc.write_record(metadata)


def read_pages(stream: IO[bytes]) -> Iterator[tuple[Page, int, int]]:
    """Yield each page of a WARC file that this project wrote, with its place: offset and length in bytes.

    Raises ArchiveError where the file is damaged: a record that is cut short, or does not have its digest.
    """
    records = ArchiveIterator(stream, check_digests=True)
    begins, identity, body = 0, "", b""
    complete = 0  # up to where it is: warcio takes a file that ends within the head of a record for one that has ended
    try:
        for record in records:
            content = _content(record.raw_stream)
            offset, length = records.get_record_offset(), records.get_record_length()
            if record.rec_type == "warcinfo":
                complete = offset + length
                continue
            if not record.digest_checker.passed:
                raise ArchiveError(f"damaged at byte {offset:,}: {record.digest_checker.problems or 'cut short'}")
            if record.rec_type in _BODY_TYPES:
                begins, identity, body = offset, record.rec_headers.get_header("WARC-Record-ID"), content
            elif record.rec_headers.get_header("WARC-Refers-To") == identity:
                page = Page(_parsed(content), body)
                if hashlib.sha256(body).digest() != page.document["checksum"]:
                    raise ArchiveError(f"damaged at byte {begins:,}: the body is not what its checksum says")
                complete = offset + length
                yield page, begins, complete - begins
    except _DAMAGED as error:
        raise ArchiveError(f"damaged after byte {begins:,} ({type(error).__name__}: {error})") from error
    if complete != stream.tell():
        raise ArchiveError(f"cut short: it ends at byte {stream.tell():,}, and its last whole page at {complete:,}")


def _content(stream: Any) -> bytes:
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


class _RawHeaders(StatusAndHeaders):  # type: ignore[misc]
    """Headers whose bytes are written as they came; warcio would percent-encode those that are not ASCII."""

    def __init__(self, statusline: str, lines: list[bytes]) -> None:
        super().__init__(statusline, [], protocol="HTTP/1.1")
        self._lines = lines

    def compute_headers_buffer(self, header_filter: object = None) -> None:  # noqa: ARG002 - warcio's own
        status = f"{self.protocol} {self.statusline}".encode()
        self.headers_buff = b"".join(line + b"\r\n" for line in (status, *self._lines, b""))


def _http_headers(page: Page) -> _RawHeaders:
    lines = []
    for name, values in page.document["headers"].items():
        raw_name = name.encode("latin-1", "replace")
        if not _TOKEN.fullmatch(raw_name):
            continue  # a reader would take it for something else; it is in the metadata
        if name.lower() in _OF_THE_TRANSFER:
            raw_name = _PREFIX + raw_name
        lines += [raw_name + b": " + _one_line(value) for value in values]
    lines.append(f"Content-Length: {len(page.body)}".encode())
    status = int(page.document["status"])
    return _RawHeaders(f"{status} {_reason(status)}", lines)


def _one_line(value: str) -> bytes:
    return re.sub(rb"[\r\n\0]+", b" ", value.encode("latin-1", "replace")).strip()


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _parsed(described: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json_util.loads(described.decode(), json_options=_JSON)
    return document
