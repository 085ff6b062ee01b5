"""Pages are found in the archive, wherever that is, and what is damaged in it is told."""

from __future__ import annotations

import gzip
import hashlib
from io import BytesIO
from pathlib import Path

import bson
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from crawler.errors import ArchiveError, ConfigError
from crawler.storage.archive.index import Entry
from crawler.storage.archive.lookup import find, load, restore, summaries
from crawler.storage.archive.place import Place
from crawler.storage.archive.records import read_pages
from tests.archives import DAY, NOW, Pages, content, fill, mover, noise, page, pages, place

__all__ = ["pages", "place"]


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
