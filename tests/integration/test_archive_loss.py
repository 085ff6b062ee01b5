"""Moving pages to the archive loses none: what is not safely in a file stays in MongoDB."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from bench.demo.worker import ROOT
from crawler.errors import ArchiveError
from crawler.storage.archive.lookup import restore
from crawler.storage.archive.move import Mover
from crawler.storage.archive.place import Place
from crawler.storage.archive.records import read_pages
from crawler.storage.documents import encode_pages
from tests.archives import NOW, Pages, all_files, content, fill, mover, noise, page, pages, place, warc_check

__all__ = ["pages", "place"]


def test_a_page_that_is_fetched_again_meanwhile_stays(pages: Pages, place: Place) -> None:
    fill(pages, *(page(number) for number in range(1, 11)))
    (newer,) = encode_pages([page(4, crawled_at=NOW, body=b"newer")])

    def fetch_again(written: int) -> None:
        if written == 10:
            pages.replace_one({"_id": (4).to_bytes(20, "big")}, bson.decode(newer.raw))

    moved = mover(pages, place, NOW - timedelta(hours=1), tell=fetch_again).run()
    assert (moved.pages, moved.fetched_again) == (10, 1)
    assert content(pages) == {(4).to_bytes(20, "big"): newer.raw}
    # And a restored version never takes the place of the later one.
    done = restore(place, moved.files, pages)
    assert (done.put_back, done.there) == (9, 1)
    assert content(pages)[(4).to_bytes(20, "big")] == newer.raw


def test_it_ends_when_nothing_can_be_deleted(pages: Pages, place: Place) -> None:
    class Keeping:
        """Pages of which none goes: a bug, or somebody else's rule."""

        def __getattr__(self, name: str) -> Any:
            return getattr(pages, name)

        def bulk_write(self, *_: object, **__: object) -> Any:
            return SimpleNamespace(deleted_count=0)

    before = fill(pages, *(page(number, body=noise(number, 2000)) for number in range(1, 31)))
    keeping: Any = Keeping()
    moved = mover(keeping, place, file_bytes=20_000).run()
    assert (moved.pages, moved.fetched_again) == (30, 30)
    assert content(pages) == before


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_what_can_not_be_read_back_is_not_deleted(
    pages: Pages, place: Place, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fill(pages, *(page(number, body=noise(number, 3000)) for number in range(1, 11)))
    verify = Mover._verify

    def on_a_bad_disk(self: Mover, name: str, written: Any) -> Any:
        path = Path(place.url) / f"{name}.open"
        data = bytearray(path.read_bytes())
        if damage == "gone":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(data[:-700])
        else:
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        return verify(self, name, written)

    monkeypatch.setattr(Mover, "_verify", on_a_bad_disk)
    with pytest.raises(ArchiveError):
        mover(pages, place).run()
    assert content(pages) == before
    assert all_files(place) == {}


def test_whole_records_that_are_missing_are_noticed(
    pages: Pages, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is sound as it is, but lacks a page at its end."""
    before = fill(pages, *(page(number) for number in range(1, 5)))
    verify = Mover._verify

    def lose_the_last(self: Mover, name: str, written: Any) -> Any:
        path = Path(place.url) / f"{name}.open"
        *_, (_, offset, _) = read_pages(BytesIO(path.read_bytes()))
        path.write_bytes(path.read_bytes()[:offset])
        return verify(self, name, written)

    monkeypatch.setattr(Mover, "_verify", lose_the_last)
    with pytest.raises(ArchiveError, match="3 pages were read back of 4"):
        mover(pages, place).run()
    assert content(pages) == before


_KILLED = """
import os, signal, sys
from datetime import datetime
from pymongo import MongoClient
from crawler.storage.archive import move
from crawler.storage.archive.place import Place
uri, database, folder, point = sys.argv[1:]
calls = 0
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def tell(pages):
    if point == "writing" and pages == 150:
        die()
place = Place(folder)
pages = MongoClient(uri)[database]["raw_pages"]
if point == "verifying":
    move.Tally.is_of_the_same_as = die
if point == "naming":
    place.finish = die
if point == "deleting":
    move.BATCH, remove = 20, pages.bulk_write
    class Dying:
        def __getattr__(self, name): return getattr(pages, name)
        def bulk_write(self, *args, **options):
            global calls
            calls += 1
            done = remove(*args, **options)
            if calls == 3:
                die()
            return done
before = datetime.fromisoformat("2026-11-30T12:00:00+00:00")
source = Dying() if point == "deleting" else pages
move.Mover(source, place, before, file_bytes=20_000, tell=tell).run()
"""


@pytest.mark.parametrize("point", ["writing", "verifying", "naming", "deleting"])
def test_a_run_that_is_killed_loses_nothing_and_the_next_one_goes_on(
    pages: Pages, place: Place, mongo_uri: str, mongo_db: str, point: str
) -> None:
    """Invariants 1 and 2: at no instant a page is neither in MongoDB nor in a file that is whole."""
    before = fill(pages, *(page(number, body=noise(number, 300)) for number in range(1, 201)))
    command = [sys.executable, "-c", _KILLED, mongo_uri, mongo_db, place.url, point]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    left = content(pages)
    assert len(left) < 200 if point in ("writing", "deleting") else len(left) == 200
    archived = {key for name in place.names() for key in archived_in(place, name)}
    assert set(left) | archived == set(before)
    moved = mover(pages, place, file_bytes=20_000).run()
    assert moved.pages == len(left)
    assert content(pages) == {}
    warc_check(place)
    restore(place, place.names(), pages)
    assert content(pages) == before


def archived_in(place: Place, name: str) -> set[bytes]:
    with place.reading(name) as stream:
        return {found.document["_id"] for found, _, _ in read_pages(stream)}
