"""Pages in a MongoDB, and an archive beside it that they move to and come back from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from warcio.checker import Checker

from crawler.storage.archive.move import Mover
from crawler.storage.archive.place import Place
from crawler.storage.documents import RawPage, encode_pages

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Pages = Collection[dict[str, Any]]


@pytest.fixture
def pages(mongo_uri: str, mongo_db: str) -> Iterator[Pages]:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        yield client[mongo_db]["raw_pages"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "archive"))


def noise(seed: int, size_bytes: int) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def page(number: int, **changes: Any) -> RawPage:
    fields: dict[str, Any] = {
        "key": number.to_bytes(20, "big"),
        "url": f"https://example.org/{number}",
        "final_url": f"https://example.org/{number}",
        "status": 200,
        "headers": [(b"Content-Type", b"text/html; charset=utf-8"), (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2")],
        "body": f"<h1>{number}</h1>".encode() * 10,
        "flags": [],
        "spider": "site",
        "crawl": "c1",
        "crawled_at": NOW - number * DAY,
    }
    return RawPage(**{**fields, **changes})


def fill(pages: Pages, *drafts: RawPage) -> dict[bytes, bytes]:
    """Store pages; give what MongoDB then has."""
    if drafts:
        pages.insert_many([RawBSONDocument(page.raw) for page in encode_pages(drafts)])
    return content(pages)


def content(pages: Pages) -> dict[bytes, bytes]:
    raw = pages.with_options(codec_options=bson.CodecOptions(document_class=RawBSONDocument))
    return {bytes(found["_id"]): bytes(found.raw) for found in raw.find()}


def mover(pages: Pages, place: Place, before: datetime = NOW, file_bytes: int = 1 << 30, **hooks: Any) -> Mover:
    return Mover(pages, place, before, file_bytes=file_bytes, tell=hooks.get("tell", lambda _: None))


def all_files(place: Place) -> dict[str, bytes]:
    folder = Path(place.url)
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def warc_check(place: Place) -> None:
    """Have warcio's own checker read the files."""
    inputs = [str(Path(place.url) / name) for name in place.names()]
    assert Checker(SimpleNamespace(inputs=inputs, verbose=False)).process_all() == 0
