"""Pages, items and rejects as documents: their keys, their fields, and what is refused."""

from __future__ import annotations

import datetime as dt
import gc
import hashlib
import os
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import attrs
import bson
import msgspec
import pytest
import scrapy

from crawler.errors import NotStorableError
from crawler.items import Page, Product
from crawler.storage import stored_as
from crawler.storage.documents import (
    Document,
    RawPage,
    Source,
    body_of,
    encode_pages,
    item_document,
    reject_document,
    reject_item,
)
from crawler.storage.places import Places

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
SOURCE = Source("http://shop.example/p/1", NOW, b"fingerprint", 3)
PAGE = RawPage(
    key=b"fingerprint",
    url="http://shop.example/p/1",
    final_url="http://shop.example/p/one",
    status=200,
    headers=[(b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=\xff"), (b"X.Y", b"")],
    body=b"<html>\xff</html>" * 1000,
    flags=["cached"],
    spider="shop",
    crawl="first",
    crawled_at=NOW,
    seed=b"parse_item--http://shop.example/p/1\x02\x01",
)


@stored_as("wines", key=("maker", "year"))
class Wine(scrapy.Item):
    maker = scrapy.Field()
    year = scrapy.Field()
    grapes = scrapy.Field()


@stored_as("authors", key="name")
@attrs.define
class Author:
    name: str
    books: list[str] = attrs.field(factory=list)


@stored_as("readings", key="sensor")
class Reading(dict[str, Any]):
    pass


@dataclass(slots=True)
class BlogPost:
    title: str
    missing: str = field(init=False)


def decoded(document: Document) -> dict[str, Any]:
    return bson.decode(document.raw, bson.CodecOptions(tz_aware=True, tzinfo=dt.UTC))


def test_a_page_is_stored_as_it_came() -> None:
    (document,) = encode_pages([PAGE])
    page = decoded(document)
    assert document.collection == "raw_pages"
    assert body_of(page) == PAGE.body
    assert len(page.pop("body")) < len(PAGE.body) / 10
    assert page == {
        "_id": b"fingerprint",
        "url": "http://shop.example/p/1",
        "final_url": "http://shop.example/p/one",
        "status": 200,
        "headers": {"Set-Cookie": ["a=1", "b=ÿ"], "X%2EY": [""]},
        "flags": ["cached"],
        "seed": b"parse_item--http://shop.example/p/1\x02\x01",
        "spider": "shop",
        "crawl": "first",
        "crawled_at": NOW,
        "changed_at": NOW,
        "fetches": 1,
        "checksum": hashlib.sha256(PAGE.body).digest(),
    }


def test_an_item_knows_its_page() -> None:
    item = decoded(item_document(Product("A-1", "Lamp", Decimal("9.90"), url="http://shop.example/p/1"), SOURCE))
    assert item.pop("_checksum")
    assert item == {
        "_id": "A-1",
        "_raw_id": b"fingerprint",
        "source_url": "http://shop.example/p/1",
        "crawled_at": NOW,
        "parsed_at": NOW,
        "updated_at": NOW,
        "sku": "A-1",
        "title": "Lamp",
        "price": bson.Decimal128("9.90"),
        "currency": None,
        "availability": None,
        "url": "http://shop.example/p/1",
    }


_ON_PAGE = {"page": b"fingerprint", "item": 3}


@pytest.mark.parametrize(
    ("item", "collection", "key"),
    [
        (Product("A-1"), "products", "A-1"),
        (Product(None), "products", _ON_PAGE),
        (Product(""), "products", _ON_PAGE),
        (Page("http://shop.example/"), "pages", _ON_PAGE),
        (Wine(maker="M", year=1999, grapes=["a", "b"]), "wines", {"maker": "M", "year": 1999}),
        (Wine(maker="M"), "wines", _ON_PAGE),
        (Author("N"), "authors", "N"),
        (Author(["a", "b"]), "authors", {"name": ["a", "b"]}),  # type: ignore[arg-type]
        (Reading(sensor=7), "readings", 7),
        ({"sku": "A-1"}, "items", _ON_PAGE),
        (BlogPost("T"), "blog_post", _ON_PAGE),
    ],
)
def test_collection_and_key_of_each_kind_of_item(item: object, collection: str, key: object) -> None:
    document = item_document(item, SOURCE)
    assert document.collection == collection
    assert decoded(document)["_id"] == key


def test_an_item_that_is_parsed_again_is_as_old_as_its_page() -> None:
    later = NOW + dt.timedelta(1)
    again = Source(SOURCE.url, NOW, SOURCE.page, SOURCE.place, parsed_at=later)
    item = decoded(item_document({"n": 1}, again))
    assert (item["crawled_at"], item["parsed_at"], item["updated_at"]) == (NOW, later, later)


def test_an_item_from_no_page_is_known_by_its_content() -> None:
    nowhere = Source("", NOW, None, 0)
    one, same, other = (decoded(item_document({"n": n}, nowhere))["_id"] for n in (1, 1, 2))
    assert one == same != other


def test_what_the_storage_adds_keeps_what_the_item_has() -> None:
    item = decoded(item_document({"_id": 5, "crawled_at": "noon", "source_url": 1}, SOURCE))
    assert (item["_id_"], item["crawled_at_"], item["source_url_"]) == (5, "noon", 1)
    assert (item["_id"], item["crawled_at"]) == (_ON_PAGE, NOW)


def test_the_checksum_is_of_the_item_alone() -> None:
    elsewhere = Source("http://shop.example/other", NOW + dt.timedelta(1), b"other", 0)
    checksums = {decoded(item_document({"n": 1}, source))["_checksum"] for source in (SOURCE, elsewhere)}
    assert len(checksums) == 1
    assert decoded(item_document({"n": 2}, SOURCE))["_checksum"] not in checksums


def test_what_was_accepted_does_not_change() -> None:
    for length in (1, 10_000):
        item = {"words": ["one"], "text": "x" * length}
        document = item_document(item, SOURCE)
        before = document.raw
        item["words"].append("two")  # type: ignore[attr-defined]
        item["text"] = ""
        assert document.raw == before
        assert decoded(document)["words"] == ["one"]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: {"text": f"{n}" + "x" * 1_000},
        lambda n: {"text": f"{n}" + "x" * 10_000},
        lambda n: {"text": f"{n}" + "x" * 3_900 + "\N{GRINNING FACE}"},
        lambda n: {"text": f"{n}" + "x" * 3_900 + "\N{CJK UNIFIED IDEOGRAPH-53D8}"},
        lambda n: {"text": f"{n}" + "é" * 1_900},
        lambda n: {"words": [f"{n}\N{GRINNING FACE}{word}" for word in range(90)]},
        lambda n: {f"{n} key {key}": f"{n}" * 9 for key in range(40)},
        lambda n: {"rows": [{} for _ in range(2_000)], "n": n},
        lambda n: {"rows": [[] for _ in range(90)], "n": n},
        lambda n: {"numbers": [n + number / 7 for number in range(90)]},
        lambda n: {"prices": [Decimal(price) / 100 for price in range(90)], "n": n},
        lambda n: {"binary": bson.Binary(bytes(100_000 + n), 8)},
    ],
)
def test_a_document_takes_no_more_memory_than_it_says(make: Callable[[int], dict[str, Any]]) -> None:
    item_document(make(0), SOURCE)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        documents = [item_document(make(number), SOURCE) for number in range(1, 51)]
        gc.collect()
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken_bytes < sum(document.size_bytes for document in documents)


def test_a_document_says_not_much_more_than_its_bytes() -> None:
    assert 10_000 < item_document({"text": "x" * 10_000}, SOURCE).size_bytes < 13_000
    assert 1_000 < item_document({"text": "x" * 1_000}, SOURCE).size_bytes < 3_000
    assert 38_000 < item_document({"rows": [1] * 3_900}, SOURCE).size_bytes < 42_000
    far = msgspec.structs.replace(SOURCE, url="http://shop.example/" + "x" * 20_000)
    assert item_document({"n": 1}, far).size_bytes > 20_000


def test_documents_are_not_printed_into_errors() -> None:
    """PyMongo does so with each that is there already."""
    for item in ({"text": "x"}, {"text": "x" * 10_000}):
        assert len(repr(item_document(item, SOURCE).fields)) < 20


def test_what_binary_holds_counts_for_the_checksum() -> None:
    """PyMongo shows nothing of one that is sensitive."""
    checksums = {
        decoded(item_document({"binary": bson.Binary(content, subtype)}, SOURCE))["_checksum"]
        for content in (b"one", b"two")
        for subtype in (0, 8)
    }
    assert len(checksums) == 4


class Rude(dict[str, Any]):
    def items(self) -> Any:
        raise ZeroDivisionError("no")

    def __repr__(self) -> str:
        raise ZeroDivisionError("no")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"a": threading.Lock()}, r"\['a'\]: a _thread.lock"),
        ("text", "TypeError: No adapter found"),
        (Rude(), "ZeroDivisionError: no"),
        ({"a": "x" * (17 << 20)}, "MongoDB takes 16,711,680"),
        ({"a": 10**6000, "b": object()}, r"\['b'\]: a builtins.object"),
    ],
    ids=("lock", "text", "rude", "large", "huge"),
)
def test_what_cant_be_stored_is_described(item: object, reason: str) -> None:
    with pytest.raises(NotStorableError, match=reason) as error:
        item_document(item, SOURCE)
    note = reject_item(item, SOURCE, str(error.value))
    described = decoded(note)
    assert note.collection == "rejects"
    assert len(note.raw) < 10_000
    assert described["reason"] == str(error.value)[:4000]
    assert described["url"] == SOURCE.url
    assert described["_id"]["key"] == _ON_PAGE
    assert note.raw == reject_item(item, SOURCE, str(error.value)).raw


def test_a_page_too_large_is_described_alone() -> None:
    empty, large = (msgspec.structs.replace(PAGE, body=body) for body in (b"", os.urandom(17 << 20)))
    first, note, last = encode_pages([PAGE, large, empty])
    assert [body_of(decoded(document)) for document in (first, last)] == [PAGE.body, b""]
    described = decoded(note)
    assert described["_id"] == {"collection": "raw_pages", "key": b"fingerprint"}
    assert described["url"] == PAGE.url
    assert "MongoDB takes" in described["reason"]


def test_nothing_but_empty_pages() -> None:
    """The compressor alone would refuse them."""
    empty = msgspec.structs.replace(PAGE, body=b"")
    assert [body_of(decoded(document)) for document in encode_pages([empty, empty])] == [b"", b""]


def test_a_document_that_the_server_refused_is_described() -> None:
    note = decoded(reject_document(item_document(Product("A-1"), SOURCE), "no"))
    assert note["_id"] == {"collection": "products", "key": "A-1"}
    assert "'sku': 'A-1'" in note["excerpt"]
    assert decoded(reject_document(encode_pages([PAGE])[0], "no"))["url"] == PAGE.url


@pytest.mark.parametrize("name", ["", "a$b", "raw_pages", "rejects", "system.users", "x" * 200, "a\0", ".a", "a."])
def test_a_collection_that_cant_be_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="can't be a collection"):
        stored_as(name)


def test_a_key_that_the_class_lacks_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="BlogPost has no field sku"):
        stored_as("posts", key="sku")(BlogPost)


def test_a_class_never_takes_the_collection_of_pages() -> None:
    raw_pages = type("RawPages", (dict,), {})
    assert item_document(raw_pages(a=1), SOURCE).collection == "items"


def test_places_follow_the_spider_whatever_the_pipelines_do() -> None:
    places = Places()
    items = [{"n": n} for n in range(5)]
    for item in items:
        places.give(item)
    assert places.take(items[3]) == 3, "overtook the others"
    assert places.take(items[0]) == 0
    assert places.take({"another": "object"}) == 1, "replaced by a pipeline: the first that is left"
    assert places.take(items[4]) == 4
    assert places.take(items[2]) == 2
    assert places.take({"from": "an errback"}) == 5


def test_one_object_given_twice_has_two_places() -> None:
    places = Places()
    item: dict[str, int] = {}
    places.give(item)
    places.give(item)
    assert [places.take(item), places.take(item)] == [0, 1]
