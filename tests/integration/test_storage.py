"""Buffer and writer against a real mongod: each document once, whatever happens to it or to the server."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import bson
import msgspec
import pytest
from pymongo import MongoClient

from bench.servers import EmbeddedMongo
from crawler.config import Config
from crawler.errors import ConfigError, NotStorableError, StorageError
from crawler.items import Product
from crawler.storage.buffer import Buffer
from crawler.storage.client import Database, open_database
from crawler.storage.destination import Destination
from crawler.storage.documents import (
    Document,
    Draft,
    RawPage,
    Source,
    Unencoded,
    body_of,
    item_document,
    reject_item,
)
from crawler.storage.store import Store
from crawler.storage.writer import Writer

# The driver leaves a socket behind when its client is closed in the middle of connecting, as it is where the server
# was killed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOSTILE_ITEMS = int(os.environ.get("HOSTILE_ITEMS", "2000"))
DAY = timedelta(days=1)
Content = dict[str, list[dict[str, Any]]]
Write = Callable[[Sequence[Draft]], Awaitable[None]]


@pytest.fixture(autouse=True)
async def forgotten_sockets() -> AsyncIterator[None]:
    """Have what the driver left behind collected here, and not in another module's test."""
    yield
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()


@pytest.fixture
def config(mongo_uri: str, mongo_db: str) -> Config:
    return Config(mongo_uri=mongo_uri, mongo_database=mongo_db)


@pytest.fixture
async def database(config: Config) -> AsyncIterator[Database]:
    database = open_database(config)
    yield database
    await database.client.close()


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


@pytest.fixture
async def write(config: Config, counts: Counter[str]) -> AsyncIterator[Write]:
    async with writer_to(config, counts) as writer:
        yield writer.write


@asynccontextmanager
async def writer_to(config: Config, counts: Counter[str]) -> AsyncIterator[Writer]:
    def count(name: str, number: float) -> None:
        counts[name] += 1 if name == "flush_seconds" else int(number)

    destination = Destination(config, count)
    writer = Writer(destination, None, count)
    try:
        yield writer
    finally:
        writer.close()
        await destination.close()


async def content(database: Database) -> Content:
    return {
        name: await database[name].find(sort={"_id": 1}).to_list()
        for name in sorted(await database.list_collection_names())
    }


def page(number: int = 1, body: str = "body", crawled_at: datetime = NOW, crawl: str = "first") -> RawPage:
    url = f"http://site.example/{number}"
    headers = [(b"Content-Type", b"text/html")]
    return RawPage(number.to_bytes(20, "big"), url, url, 200, headers, body.encode(), [], "site", crawl, crawled_at)


def product(sku: str, title: str = "Lamp", crawled_at: datetime = NOW, place: int = 0) -> Document:
    source = Source(f"http://site.example/{sku}", crawled_at, sku.encode(), place)
    return item_document(Product(sku, title, Decimal("9.90")), source)


def item(number: int, title: str, crawled_at: datetime = NOW) -> Document:
    return item_document({"title": title}, Source("http://site.example/", crawled_at, b"%d" % number, 0))


async def test_writing_again_changes_nothing(write: Write, database: Database, counts: Counter[str]) -> None:
    """Invariant 3: a batch that comes twice, because its acknowledgement was lost, leaves what it left once."""
    drafts = [*(page(number) for number in range(40)), *(product(f"A-{number}") for number in range(40))]
    await write(drafts)
    once = await content(database)
    await write(drafts)
    await write([*drafts, *drafts])
    assert await content(database) == once
    assert {name: len(documents) for name, documents in once.items()} == {"products": 40, "raw_pages": 40}
    assert counts == {
        "pages_stored": 160,
        "items_stored": 160,
        "flushes": 3,
        "flush_seconds": 3,
        "flush_documents": 320,
    }


async def test_a_page_fetched_again_in_its_crawl_is_the_same_fetch(write: Write, database: Database) -> None:
    await write([page(crawled_at=NOW)])
    await write([page(crawled_at=NOW + DAY)])
    assert (await database["raw_pages"].find_one())["fetches"] == 1  # type: ignore[index]


async def test_an_unchanged_page_counts_the_crawl_and_keeps_its_change(write: Write, database: Database) -> None:
    await write([page(crawled_at=NOW)])
    await write([page(crawled_at=NOW + DAY, crawl="second")])
    (found,) = await database["raw_pages"].find().to_list()
    assert (found["fetches"], found["crawl"]) == (2, "second")
    assert found["crawled_at"] == (NOW + DAY).replace(tzinfo=None)
    assert found["changed_at"] == NOW.replace(tzinfo=None)


async def test_a_changed_page_is_replaced(write: Write, database: Database) -> None:
    await write([page(body="old")])
    await write([page(body="new", crawled_at=NOW + DAY, crawl="second")])
    (found,) = await database["raw_pages"].find().to_list()
    assert body_of(found) == b"new"
    assert found["changed_at"] == found["crawled_at"] == (NOW + DAY).replace(tzinfo=None)


async def test_an_item_found_again_is_one_updated_document(write: Write, database: Database) -> None:
    """Case M6: no error and no second document, whatever the page."""
    await write([product("A-1"), product("A-2")])
    await write([product("A-1", "Lamp, new", NOW + DAY), product("A-2", crawled_at=NOW + DAY)])
    changed, unchanged = await database["products"].find(sort={"_id": 1}).to_list()
    assert changed["title"] == "Lamp, new"
    assert changed["updated_at"] == changed["crawled_at"]
    assert unchanged["updated_at"] == unchanged["crawled_at"] - DAY


async def test_the_newest_stays_whatever_the_order(write: Write, database: Database) -> None:
    """A late replay never overwrites a newer page; of two of the same moment the same one always stays."""
    versions = [("a", NOW), ("b", NOW + DAY), ("c", NOW + DAY), ("a", NOW - DAY)]
    orders = list(itertools.permutations(versions))
    for step in range(len(versions)):
        await write(
            [page(number, *order[step], crawl=f"{order[step]}") for number, order in enumerate(orders)]
            + [item(number, *order[step]) for number, order in enumerate(orders)]
        )
    pages = await database["raw_pages"].find().to_list()
    items = await database["items"].find().to_list()
    assert len(pages) == len(items) == 24
    assert len({(found["checksum"], found["crawled_at"]) for found in pages}) == 1
    assert len({(found["title"], found["crawled_at"]) for found in items}) == 1
    assert pages[0]["crawled_at"] == (NOW + DAY).replace(tzinfo=None)


async def test_of_one_fetch_the_item_that_was_parsed_later_stays(write: Write, database: Database) -> None:
    """Whatever the order; and what is parsed of an older fetch, however late, changes nothing."""
    versions = [("old", NOW - DAY, 9), ("as crawled", NOW, 0), ("parsed again", NOW, 1), ("and again", NOW, 2)]
    orders = list(itertools.permutations(versions))
    for step in range(len(versions)):
        documents = []
        for number, order in enumerate(orders):
            title, crawled_at, days = order[step]
            source = Source("http://site.example/", crawled_at, b"%d" % number, 0, parsed_at=crawled_at + days * DAY)
            documents.append(item_document({"title": title}, source))
        await write([*documents, *documents])
    items = await database["items"].find().to_list()
    assert {(item["title"], item["crawled_at"], item["parsed_at"], item["updated_at"]) for item in items} == {
        ("and again", *(when.replace(tzinfo=None) for when in (NOW, NOW + 2 * DAY, NOW + 2 * DAY)))
    }


async def test_the_server_keeps_no_books_of_what_may_be_repeated(write: Write, database: Database) -> None:
    await database.command("profile", 2)
    try:
        await write([page(number) for number in range(3)])
    finally:
        await database.command("profile", 0)
    (insert,) = await database["system.profile"].find({"op": "insert"}).to_list()
    assert insert["ninserted"] == 3
    assert "txnNumber" not in insert["command"]


async def test_a_document_that_mongodb_refuses_is_set_aside_alone(
    write: Write, database: Database, counts: Counter[str]
) -> None:
    """Invariant 7: too large, or wrong in itself; the others of the batch are stored."""
    wrong = Document.encoded(
        "products", bson.encode({"_id": [1], "source_url": "http://site.example/wrong", "crawled_at": NOW})
    )
    large = msgspec.structs.replace(page(7), body=os.urandom(17 << 20))
    # What was taken can be encoded; this stands for what nobody thought of.
    fields = Unencoded(_id="A-3", source_url="http://site.example/odd", crawled_at=NOW, odd=object())
    odd = Document("products", fields, 100)
    drafts = [page(1), product("A-1"), wrong, large, odd, product("A-2"), page(2)]
    await write(drafts)
    await write(drafts)
    found = await content(database)
    assert [item["_id"] for item in found["products"]] == ["A-1", "A-2"]
    assert [item["url"][-1] for item in found["raw_pages"]] == ["1", "2"]
    rejects = {note["url"]: note["reason"] for note in found["rejects"]}
    assert "cannot be of type array" in rejects["http://site.example/wrong"]
    assert "MongoDB takes 16,711,680" in rejects["http://site.example/7"]
    assert "cannot encode object" in rejects["http://site.example/odd"]
    assert counts["rejected"] == 6


async def test_what_a_rule_of_the_users_refuses_is_set_aside(write: Write, database: Database) -> None:
    await database["products"].create_index("title", unique=True)
    await database.create_collection("items", validator={"n": {"$type": "int"}})
    source = Source("http://site.example/", NOW, b"page", 0)
    await write(
        [
            product("A-1"),
            product("A-2"),
            product("A-3", "Chair"),
            item_document({"n": "text"}, source),
            item_document({"n": 1}, msgspec.structs.replace(source, place=1)),
        ]
    )
    await write([product("A-3", "Lamp", NOW + DAY)])
    found = await content(database)
    assert [(item["_id"], item["title"]) for item in found["products"]] == [("A-1", "Lamp"), ("A-3", "Chair")]
    assert [item["n"] for item in found["items"]] == [1]
    assert {(note["_id"]["collection"], note["reason"][:6]) for note in found["rejects"]} == {
        ("products", "E11000"),
        ("items", "Docume"),
    }


async def test_what_the_server_refuses_as_a_whole_is_tried_one_by_one(write: Write, database: Database) -> None:
    """A collection that takes no documents at all harms only its own."""
    await database.command("create", "products", viewOn="raw_pages", pipeline=[])
    await write([page(1), product("A-1"), product("A-2"), product("A-3")])
    assert await database["raw_pages"].count_documents({}) == 1
    assert await database["rejects"].count_documents({"_id.collection": "products"}) == 3


async def test_items_of_hostile_shapes(write: Write, database: Database) -> None:
    """Every one is stored or in the rejects, and the server takes them all; HOSTILE_ITEMS=100000 draws more of them."""
    draw = random.Random(5)
    refused = 0
    for start in range(0, HOSTILE_ITEMS, 250):
        drafts: list[Draft] = []
        for number in range(start, start + 250):
            source = Source("http://site.example/hostile", NOW, b"page", number)
            item = {_hostile_key(draw): _hostile(draw, 4) for _ in range(draw.randrange(8))}
            if number % 500 == 7:
                item["monster"] = draw.choice(["x" * 20_000_000, _nested(draw.randrange(90, 2000))])
            try:
                drafts.append(item_document(item, source))
            except NotStorableError as error:
                drafts.append(reject_item(item, source, str(error)))
                refused += 1
        await write(drafts)
    assert await database["items"].count_documents({}) == HOSTILE_ITEMS - refused
    assert await database["rejects"].count_documents({}) == refused
    assert HOSTILE_ITEMS / 200 < refused < HOSTILE_ITEMS / 2


def _nested(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def _hostile_key(draw: random.Random) -> Any:
    return draw.choice(["a", "a.b", "$where", "", "_id", "\0", "\udc80", "crawled_at", "ü", "__proto__", 7, None, b"k"])


def _hostile(draw: random.Random, depth: int) -> Any:
    circle: list[Any] = []
    circle.append(circle)
    scalars = [
        *(None, True, 1 << 70, -(1 << 63), float("nan"), float("-inf"), "\ud800", "a\0b", b"\xff", "$a.b"),
        *(Decimal("sNaN"), Decimal("1E-6200"), Decimal(1) / 3, datetime.max.replace(tzinfo=UTC), timedelta.max),
        *({1, "a", None}, frozenset(), range(3), bytearray(b"x"), "x" * 100_000),
    ]
    shapes = [
        lambda: draw.choice(scalars),
        lambda: [_hostile(draw, depth - 1) for _ in range(draw.randrange(4))],
        lambda: {_hostile_key(draw): _hostile(draw, depth - 1) for _ in range(draw.randrange(4))},
        lambda: draw.choice([object(), circle]) if draw.random() < 0.05 else draw.choice(scalars),
    ]
    return draw.choice(shapes if depth else shapes[:1])()


@pytest.fixture
def own_mongo(mongo_server: EmbeddedMongo) -> Iterator[EmbeddedMongo]:
    """Give a server that a test may kill."""
    with EmbeddedMongo(mongo_server.program, replica_set="rs0") as server:
        yield server


def _buffer(writer: Writer, **limits: Any) -> Buffer:
    sizes = {"batch_docs": 50, "batch_bytes": 1 << 20, "flush_s": 0.2, "limit_bytes": 8 << 20} | limits
    return Buffer(writer.write, lambda error: pytest.fail(f"gave up: {error!r}"), **sizes)


async def test_mongod_killed_and_restarted_in_a_stream_of_documents(own_mongo: EmbeddedMongo) -> None:
    """Every document is there once, and what was called durable before a kill was."""
    config = Config(mongo_uri=own_mongo.url, mongo_database="stream", store_connect_s=2)
    counts: Counter[str] = Counter()
    total, durable = 3000, 0

    def note(number: int) -> None:
        nonlocal durable
        durable = max(durable, number)

    async with writer_to(config, counts) as writer:
        buffer = _buffer(writer)
        for number in range(total):
            buffer.put(page(number) if number % 2 else product(f"A-{number}"))
            future = buffer.durable
            assert future
            if number % 50 == 49:
                future.add_done_callback(lambda _, number=number: note(number + 1))
            if number % 1000 == 500:
                await asyncio.sleep(0)
                assert buffer.documents, "nothing is under way"
                own_mongo.kill()
                await asyncio.to_thread(own_mongo.start)
                with MongoClient[dict[str, Any]](own_mongo.url) as client:
                    stored = _stored_numbers(client)
                assert set(range(durable)) <= stored
            await asyncio.sleep(0)
        assert await buffer.drain(60) == 0
    assert durable == total
    with MongoClient[dict[str, Any]](own_mongo.url) as client:
        assert client["stream"]["raw_pages"].count_documents({"fetches": 1}) == total // 2
        assert _stored_numbers(client) == set(range(total))
    assert counts["rejected"] == 0


def _stored_numbers(client: MongoClient[dict[str, Any]]) -> set[int]:
    database = client["stream"]
    pages = [int.from_bytes(found["_id"], "big") for found in database["raw_pages"].find({}, {"_id": 1})]
    products = [int(found["_id"].removeprefix("A-")) for found in database["products"].find({}, {"_id": 1})]
    assert len(pages) + len(products) == len({*pages, *products})
    return {*pages, *products}


async def test_the_event_loop_goes_on_while_mongodb_stands_still(own_mongo: EmbeddedMongo) -> None:
    """Case M5, invariants 5 and 8: nothing blocks, the buffer says that it is full, and all is stored in the end."""
    config = Config(mongo_uri=own_mongo.url, mongo_database="stream")
    counts: Counter[str] = Counter()
    async with writer_to(config, counts) as writer:
        buffer = _buffer(writer, limit_bytes=200_000)
        os.kill(own_mongo.pid, signal.SIGSTOP)
        try:
            put = 0
            # What blocked would come back only when the driver gives up, after 30 s.
            async with asyncio.timeout(20):
                while not buffer.is_full:
                    buffer.put(product(f"A-{put}"))
                    put += 1
                    await asyncio.sleep(0)
                waiting = asyncio.ensure_future(buffer.wait_for_room())
                for _ in range(1000):
                    await asyncio.sleep(0)
            assert not waiting.done()
            assert buffer.documents == put
        finally:
            os.kill(own_mongo.pid, signal.SIGCONT)
        await asyncio.wait_for(waiting, 60)
        assert await buffer.drain(60) == 0
    assert counts["items_stored"] == put


async def test_a_primary_that_steps_down_loses_nothing(own_mongo: EmbeddedMongo) -> None:
    config = Config(mongo_uri=own_mongo.url, mongo_database="stream")
    async with writer_to(config, Counter()) as writer:
        buffer = _buffer(writer)
        with MongoClient[dict[str, Any]](own_mongo.url) as client:
            for number in range(600):
                buffer.put(page(number))
                if number == 300:
                    command = {"replSetStepDown": 1, "secondaryCatchUpPeriodSecs": 0, "force": True}
                    await asyncio.to_thread(client.admin.command, command)
                await asyncio.sleep(0)
            assert await buffer.drain(60) == 0
            assert client["stream"]["raw_pages"].count_documents({"fetches": 1}) == 600


async def test_a_worker_that_stops_gives_up_in_time(own_mongo: EmbeddedMongo) -> None:
    config = Config(mongo_uri=own_mongo.url, mongo_database="stream", store_connect_s=1)
    async with writer_to(config, Counter()) as writer:
        buffer = _buffer(writer)
        buffer.put(page(1))
        durable = buffer.durable
        own_mongo.kill()
        assert await buffer.drain(0.5) == 1
        assert durable is not None
        assert not durable.done()


async def opened(config: Config) -> Store:
    return await Store.open(config, lambda *_: None, lambda _: None)


async def test_an_unreachable_server_is_named_without_the_password(own_mongo: EmbeddedMongo) -> None:
    own_mongo.kill()
    uri = f"mongodb://me:secret@127.0.0.1:{own_mongo.port}/?serverSelectionTimeoutMS=5"
    with pytest.raises(StorageError) as error:
        await opened(Config(mongo_uri=uri, store_connect_s=0.5))
    assert f"mongodb://127.0.0.1:{own_mongo.port}" in str(error.value)
    assert "[Errno 111]" in str(error.value)
    assert "MONGO_URI" in str(error.value)
    assert "secret" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("uri", ["mongodb://", "mongodb://h:port", "mongodb://h:70000"])
async def test_an_address_that_is_none_is_refused_by_its_setting(uri: str) -> None:
    with pytest.raises((ConfigError, StorageError), match="MONGO_URI"):
        await opened(Config(mongo_uri=uri, store_connect_s=0.2))
