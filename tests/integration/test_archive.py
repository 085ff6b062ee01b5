"""The archive against a real mongod: pages go to WARC files and come back the same, whatever is in them."""

from __future__ import annotations

import gzip
import hashlib
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bson
import msgspec
import pytest
from bson.raw_bson import RawBSONDocument
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from bench.demo.worker import ROOT
from crawler.errors import ArchiveError, ConfigError
from crawler.storage.archive import move
from crawler.storage.archive.index import Entry
from crawler.storage.archive.lookup import find, load, restore, summaries
from crawler.storage.archive.move import Moved, Mover
from crawler.storage.archive.place import Place
from crawler.storage.archive.records import Page, PageWriter, read_pages
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


# -- there and back


def test_pages_older_than_that_move_and_come_back_the_same(pages: Pages, place: Place) -> None:
    before = fill(pages, *(page(number) for number in range(60)))
    moved = mover(pages, place, NOW - 30 * DAY).run()
    assert (moved.pages, len(moved.files), moved.fetched_again, moved.unfit) == (29, 1, 0, {})
    assert set(content(pages)) == {number.to_bytes(20, "big") for number in range(31)}
    assert place.unfinished() == []
    warc_check(place)
    [summary] = summaries(place)
    assert (summary.file, summary.pages) == (moved.files[0], 29)
    assert (summary.oldest, summary.newest) == (NOW - 59 * DAY, NOW - 31 * DAY)
    done = restore(place, moved.files, pages)
    assert (done.put_back, done.there) == (29, 0)
    assert content(pages) == before
    again = restore(place, moved.files, pages)
    assert (again.put_back, again.there) == (0, 29)


def test_any_warc_reader_sees_the_responses(pages: Pages, place: Place) -> None:
    body = "Käse €".encode()
    headers = [
        (b"Content-Type", b"text/plain"),
        (b"Content-Encoding", b"gzip"),  # of the transfer: the body is stored decoded
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"3"),
        (b"X-Bytes", b"caf\xe9"),
        (b"Bad Name", b"x"),
        (b"X-Evil", b"a\r\n\r\nInjected: yes"),
    ]
    fill(pages, page(1, headers=headers, body=body, status=404, final_url="https://example.org/ä b?<x>"))
    moved = mover(pages, place).run()
    with (Path(place.url) / moved.files[0]).open("rb") as stream:
        info, response, metadata = [
            (record.rec_type, record.rec_headers, record.http_headers, record.content_stream().read())
            for record in ArchiveIterator(stream, check_digests="raise")
        ]
    assert info[0] == "warcinfo"
    assert b"seedbed" in info[3]
    kind, warc, http, content_read = response
    assert (kind, content_read) == ("response", body)
    assert warc.get_header("WARC-Target-URI") == "https://example.org/%C3%A4%20b?%3Cx%3E"
    assert warc.get_header("WARC-Date") == "2026-11-29T12:00:00.000000Z"
    assert warc.get_header("WARC-Payload-Digest").startswith("sha1:")
    assert http.get_statuscode() == "404"
    assert http.headers == [
        ("Content-Type", "text/plain"),
        ("X-Crawler-Content-Encoding", "gzip"),
        ("X-Crawler-Transfer-Encoding", "chunked"),
        ("X-Crawler-Content-Length", "3"),
        ("X-Bytes", "café"),
        ("X-Evil", "a Injected: yes"),
        ("Content-Length", str(len(body))),
    ]
    assert metadata[0] == "metadata"
    assert metadata[1].get_header("WARC-Refers-To") == warc.get_header("WARC-Record-ID")
    assert msgspec.json.decode(metadata[3])["headers"]["X-Evil"] == ["a\r\n\r\nInjected: yes"]
    warc_check(place)


_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_names = _texts.filter(lambda name: "\0" not in name)
_moments = st.integers(-60_000_000_000_000, 250_000_000_000_000).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
_values = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats()),
        *(_texts, st.binary(max_size=20), _moments),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_BODIES = [b"", b"\r\n\r\n", b"WARC/1.1\r\n", b"\x1f\x8b", noise(1, 300_000), b"x" * 5_000_000]
_pages = st.builds(
    page,
    st.integers(1, 700_000),
    url=_texts | st.sampled_from(["https://example.org/ü?q=\u2028#x", "file:///a b", "http://", "HTTP://x/"]),
    final_url=_texts | st.sampled_from(["https://пример.рф/путь", "data:,x", "https://a/\r\nX: y", "http://a/<b>"]),
    status=st.integers(0, 999),
    headers=st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=40)), max_size=6),
    body=st.binary(max_size=400) | st.sampled_from(range(len(_BODIES))).map(lambda number: _BODIES[number]),
    flags=st.lists(_texts, max_size=2),
    crawled_at=st.integers(0, 1_700_000_000_000).map(
        lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    ),
)


@given(st.lists(_pages, max_size=5, unique_by=lambda one: one.key), st.dictionaries(st.just("more"), _values))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_page_holds_it_comes_back_to_the_last_byte(
    pages: Pages, tmp_path: Path, drafts: list[RawPage], more: dict[str, Any]
) -> None:
    place = Place(tempfile.mkdtemp(dir=tmp_path))
    pages.delete_many({})
    if drafts:
        pages.insert_many([bson.decode(page.raw) | more for page in encode_pages(drafts)])
    before = content(pages)
    moved = mover(pages, place).run()
    # Only a document that looks like Extended JSON can't be told apart from it: it stays.
    assert len(moved.unfit) in ({0, len(drafts)} if more else {0})
    assert len(content(pages)) == len(moved.unfit)
    warc_check(place)
    restore(place, moved.files, pages)
    assert content(pages) == before


def test_what_extended_json_would_change_stays_in_mongodb(pages: Pages, place: Place) -> None:
    fill(pages, page(1), page(2))
    key = (1).to_bytes(20, "big")
    pages.update_one({"_id": key}, [{"$set": {"odd": {"$literal": {"$numberInt": "5"}}}}])
    moved = mover(pages, place).run()
    assert moved.pages == 1
    assert list(moved.unfit) == [key.hex()]
    assert set(content(pages)) == {key}


def test_a_page_that_is_damaged_stays_and_harms_no_other(pages: Pages, place: Place) -> None:
    """Invariant 7."""
    fill(pages, *(page(number) for number in range(1, 8)))
    damages = [{"checksum": b"x" * 32}, {"body": b"no zstd"}, {"headers": "text"}, {"status": "200"}, {"url": None}]
    for number, damage in enumerate(damages, start=1):
        pages.update_one({"_id": number.to_bytes(20, "big")}, {"$set": damage})
    pages.insert_one({"_id": "a text", "crawled_at": NOW - DAY})
    before = content_keys(pages)
    moved = mover(pages, place).run()
    assert moved.pages == 2
    assert len(moved.unfit) == 6
    assert all(moved.unfit.values())
    assert content_keys(pages) == before - {repr((6).to_bytes(20, "big")), repr((7).to_bytes(20, "big"))}


def content_keys(pages: Pages) -> set[str]:
    return {repr(found["_id"]) for found in pages.find({}, {"_id": 1})}


def test_so_many_unfit_pages_are_taken_for_a_fault(pages: Pages, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "MAX_UNFIT", 3)
    fill(pages, *(page(number) for number in range(1, 8)))
    pages.update_many({}, {"$set": {"checksum": b"x"}})
    with pytest.raises(ArchiveError, match="more than 3 pages can't be archived"):
        mover(pages, place).run()


def test_files_are_of_bounded_size(pages: Pages, place: Place) -> None:
    before = fill(pages, *(page(number, body=noise(number, 20_000)) for number in range(1, 31)))
    moved = mover(pages, place, file_bytes=100_000).run()
    assert (moved.pages, len(moved.files)) == (30, 6)
    assert content(pages) == {}
    for summary in summaries(place):
        assert summary.pages == 5
        assert 100_000 <= summary.size_bytes < 130_000
    restore(place, moved.files, pages)
    assert content(pages) == before


def test_one_page_is_in_memory_at_a_time(pages: Pages, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: by counting, from the reading on to the reading back."""
    alive: set[int] = set()
    most = 0

    class Counted(Page):
        def __init__(self, *args: Any) -> None:
            nonlocal most
            super().__init__(*args)
            alive.add(id(self))
            most = max(most, len(alive))

        def __del__(self) -> None:
            alive.discard(id(self))

    fill(pages, *(page(number) for number in range(1, 301)))
    monkeypatch.setattr(move, "Page", Counted)
    monkeypatch.setattr("crawler.storage.archive.records.Page", Counted)
    assert mover(pages, place).run().pages == 300
    assert 1 <= most <= 3


def test_nothing_old_leaves_no_file(pages: Pages, place: Place) -> None:
    fill(pages, page(1))
    assert mover(pages, place, NOW - 10 * DAY).run() == Moved()
    assert all_files(place) == {}


def test_a_dry_run_counts_and_touches_nothing(pages: Pages, place: Place) -> None:
    before = fill(pages, *(page(number) for number in range(5)))
    waiting = mover(pages, place, NOW - DAY).waiting()
    assert (waiting.pages, waiting.oldest, waiting.newest) == (3, NOW - 4 * DAY, NOW - 2 * DAY)
    assert waiting.size_bytes == sum(len(raw) for raw in list(before.values())[2:])
    assert content(pages) == before
    assert all_files(place) == {}


# -- nothing is lost


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


# -- looking things up


def test_a_page_is_found_by_url_and_by_fingerprint_newest_first(pages: Pages, place: Place) -> None:
    for day in (5, 3, 4):
        fill(pages, page(1, crawled_at=NOW - day * DAY, body=b"%d" % day, final_url="https://example.org/moved"))
        mover(pages, place).run()
    for key in ("https://example.org/1", "https://example.org/moved", (1).to_bytes(20, "big").hex().upper()):
        found = find(place, key)
        assert [load(place, one).body for one in found] == [b"3", b"4", b"5"], key
    assert find(place, "https://example.org/") == []
    done = restore(place, ["https://example.org/1"], pages)
    assert (done.put_back, done.there) == (1, 0)
    [document] = content(pages).values()
    assert bson.decode(document)["checksum"] == hashlib.sha256(b"3").digest()
    pages.delete_many({})
    done = restore(place, place.names()[:2], pages)
    assert (done.put_back, done.there) == (1, 1)
    [document] = content(pages).values()
    assert bson.decode(document)["checksum"] == hashlib.sha256(b"3").digest()
    with pytest.raises(ArchiveError, match="not in the archive"):
        restore(place, ["https://example.org/2"], pages)


def test_a_file_without_its_index_is_read_through(pages: Pages, place: Place) -> None:
    fill(pages, page(1), page(2))
    [name] = mover(pages, place).run().files
    indexed = list(summaries(place)), find(place, "https://example.org/2")
    (Path(place.url) / f"{name}.index.jsonl").unlink()
    assert (list(summaries(place)), find(place, "https://example.org/2")) == indexed


def test_a_damaged_archive_is_named(pages: Pages, place: Place) -> None:
    fill(pages, page(1, body=noise(1, 2000)), page(2))
    [name] = mover(pages, place).run().files
    path = Path(place.url) / name
    index = Path(place.url) / f"{name}.index.jsonl"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match=name):
        restore(place, [name], pages)
    index.write_bytes(index.read_bytes().rstrip(b"\n").rpartition(b"\n")[0] + b"\n")
    with pytest.raises(ArchiveError, match=r"1 pages instead of 2"):
        find(place, "https://example.org/1")


def test_a_file_that_is_cut_short_is_named_wherever_it_ends(pages: Pages, place: Place) -> None:
    """The trailer of gzip, 8 bytes, and the empty lines behind a record may be missing: the page is whole without."""
    fill(pages, page(1), page(2))
    [name] = mover(pages, place).run().files
    data = (Path(place.url) / name).read_bytes()
    [_, (_, begins, length)] = read_pages(BytesIO(data))
    assert len(data) == begins + length
    for size_bytes in range(begins + 1, len(data) - 16):
        with pytest.raises(ArchiveError, match=r"cut short|damaged"):
            list(read_pages(BytesIO(data[:size_bytes])))
    assert len(list(read_pages(BytesIO(data[:begins])))) == 1


def test_a_record_that_was_changed_is_noticed_by_its_digest(pages: Pages, place: Place) -> None:
    """Compressed anew, with sound checksums of gzip: only the digest in the record tells."""
    fill(pages, page(1), page(2))
    [name] = mover(pages, place).run().files
    entry = find(place, "https://example.org/1")[0].entry
    path = Path(place.url) / name
    data = path.read_bytes()
    end = entry.offset + entry.length
    records = gzip.decompress(data[entry.offset : end]).replace(b'"spider": "site"', b'"spider": "sitE"')
    body, metadata = (b"WARC/1.1" + record for record in records.split(b"WARC/1.1")[1:])
    path.write_bytes(data[: entry.offset] + gzip.compress(body) + gzip.compress(metadata) + data[end:])
    with pytest.raises(ArchiveError, match="digest failed"):
        restore(place, [name], pages)


# -- places


def test_any_place_that_fsspec_knows_will_do(pages: Pages) -> None:
    before = fill(pages, *(page(number) for number in range(1, 21)))
    place = Place("memory://pages/old")
    try:
        moved = mover(pages, place).run()
        assert content(pages) == {}
        assert place.names() == moved.files
        assert load(place, find(place, "https://example.org/7")[0]).body == page(7).body
        restore(place, moved.files, pages)
        assert content(pages) == before
    finally:
        MemoryFileSystem.store.clear()


def test_a_place_that_can_not_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        Place("nowhere://x")
    with pytest.raises(ConfigError, match=r"seedbed\[s3\]"):
        Place("s3://bucket/pages")
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(ArchiveError, match="file"), Place(str(blocked / "x")).writing("y"):
        pass


def test_records_are_gzip_members_of_their_own(pages: Pages, place: Place) -> None:
    fill(pages, page(1), page(2))
    [name] = mover(pages, place).run().files
    data = (Path(place.url) / name).read_bytes()
    found: Entry = find(place, "https://example.org/2")[0].entry
    records = gzip.decompress(data[found.offset : found.offset + found.length])
    assert records.startswith(b"WARC/1.1\r\n")
    assert records.count(b"WARC-Type: ") == 2


# -- the command


@pytest.fixture
def archive(environ: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-W", "error", "-m", "scrapy", "archive", *arguments]
        variables = environ | {"ARCHIVE_URL": str(tmp_path / "archive")}
        return subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, timeout=60, check=False)

    return run


def test_the_command_moves_lists_shows_and_restores(
    archive: Callable[..., subprocess.CompletedProcess[bytes]], pages: Pages, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    before = fill(pages, *(page(number, crawled_at=now - number * DAY) for number in range(1, 61)))
    dry = archive("--older-than", "40d", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.startswith(b"21 pages would be moved")
    moved = archive("--json")  # ARCHIVE_AFTER_DAYS
    assert moved.returncode == 0, moved.stderr
    outcome = msgspec.json.decode(moved.stdout, type=Moved)
    assert outcome.pages == 31
    assert outcome.files[0].encode() in archive("--list").stdout
    assert len(archive("--list", "--url", "https://example.org/45").stdout.splitlines()) == 2
    assert archive("--list", "--url", "https://example.org/2").returncode == 1
    assert archive("--show", "https://example.org/45").stdout == page(45).body
    assert archive("--show", "https://example.org/2").returncode == 1
    kept = tmp_path / "body"
    described = archive("--show", "https://example.org/45", "--json", "--output", str(kept))
    assert msgspec.json.decode(described.stdout)["url"] == "https://example.org/45"
    assert kept.read_bytes() == page(45).body
    assert archive("--restore", "https://example.org/45", outcome.files[0]).stdout == (
        b"31 pages put back; 1 were there already.\n"
    )
    assert content(pages) == before


def test_the_command_says_what_is_wrong(archive: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    for arguments, code, words in (
        (("--older-than", "soon"), 2, b"'soon' is no point in time"),
        (("--older-than", "2999-01-01"), 2, b"a point of the past"),
        (("--restore", "https://example.org/x"), 2, b"not in the archive"),
        (("--list", "--to", "nowhere://x"), 2, b"nowhere"),
    ):
        told = archive(*arguments)
        said = told.stdout + told.stderr
        assert (told.returncode, words in said, b"Traceback" in said) == (code, True, False), said


def test_a_run_that_is_stopped_tidies_up(
    environ: dict[str, str], pages: Pages, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    before = fill(pages, *(page(number, body=noise(number, 30_000)) for number in range(1, 1500)))
    command = [sys.executable, "-W", "error", "-m", "scrapy", "archive", "--to", str(tmp_path / "archive")]
    command += ["--older-than", "1s"]
    with subprocess.Popen(command, env=environ, cwd=ROOT, stderr=subprocess.PIPE, text=True) as run:
        eventually(lambda: list(tmp_path.glob("archive/*.open")))
        run.send_signal(signal.SIGINT)
        assert run.stderr
        said = run.stderr.read()
    assert (run.returncode, said) == (
        130,
        "seedbed: stopped; files that were complete stay, and MongoDB has all other pages\n",
    )
    assert list((tmp_path / "archive").iterdir()) == []
    assert content(pages) == before


def test_a_file_under_way_is_told_of(
    archive: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path
) -> None:
    with Place(str(tmp_path / "archive")).writing("pages-1.warc.gz.open") as stream:
        PageWriter(stream, "pages-1.warc.gz")
    assert b"pages-1.warc.gz.open" in archive("--dry-run").stderr
