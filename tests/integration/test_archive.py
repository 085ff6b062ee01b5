"""Old pages move from a real mongod to WARC files and come back the same, whatever is in them."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from crawler.errors import ArchiveError
from crawler.storage.archive import move
from crawler.storage.archive.lookup import restore, summaries
from crawler.storage.archive.move import Moved
from crawler.storage.archive.place import Place
from crawler.storage.archive.records import Page
from crawler.storage.documents import RawPage, encode_pages
from tests.archives import DAY, NOW, Pages, all_files, content, fill, mover, noise, page, pages, place, warc_check

__all__ = ["pages", "place"]


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
