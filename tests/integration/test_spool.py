"""The store with a spool against a real mongod that dies, hangs, refuses, is full: all is durable meanwhile, once."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from pymongo import MongoClient

from bench.servers import EmbeddedMongo
from crawler.config import Config
from crawler.errors import StorageError
from crawler.storage.documents import Document, RawPage, Source, item_document
from crawler.storage.store import Store
from tests.integration.test_storage_setup import PASSWORDS, SecuredMongo, keyed, setup

# The driver leaves a socket behind when its client is closed in the middle of connecting, as it is where the server
# was killed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
#: No wait of these tests takes longer, seconds.
PATIENCE_S = 60


@pytest.fixture(autouse=True)
async def forgotten_sockets() -> AsyncIterator[None]:
    """Have what the driver left behind collected here, and not in another module's test."""
    yield
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()


@pytest.fixture
def own_mongo(mongo_server: EmbeddedMongo) -> Iterator[EmbeddedMongo]:
    """Give a server that a test may harm; it can be told to fail."""
    options = {"setParameter": {"enableTestCommands": True}}
    with EmbeddedMongo(mongo_server.program, replica_set="rs0", options=options) as server:
        yield server


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


@pytest.fixture
def config(own_mongo: EmbeddedMongo, tmp_path: Path) -> Config:
    return config_of(own_mongo.url, tmp_path)


def config_of(url: str, folder: Path, **settings: Any) -> Config:
    quick: dict[str, Any] = {"store_connect_s": 0.5, "store_flush_s": 0.1, "store_batch_docs": 20, "store_close_s": 0.5}
    return Config(mongo_uri=url, mongo_database="stream", store_spool_dir=str(folder), **(quick | settings))


@asynccontextmanager
async def store_of(config: Config, counts: Counter[str], *, wholly: bool = True) -> AsyncIterator[Store]:
    def count(name: str, number: float) -> None:
        counts[name] += 1 if name == "flush_seconds" else int(number)

    store = await Store.open(config, count, lambda error: pytest.fail(f"gave up: {error!r}"))
    try:
        yield store
    finally:
        await store.close(wholly=wholly)


def page(number: int) -> RawPage:
    url = f"http://site.example/{number}"
    return RawPage(number.to_bytes(20, "big"), url, url, 200, [], os.urandom(2000), [], "site", "first", NOW)


def item(number: int) -> Document:
    return item_document({"n": number}, Source("http://site.example/", NOW, b"%d" % number, 0))


async def put(store: Store, numbers: range) -> None:
    """Put a page and an item for each number, and let the event loop run as a crawl does."""
    for number in numbers:
        store.buffer.put(page(number))
        store.buffer.put(item(number))
        await asyncio.sleep(0)


async def durable(store: Store) -> None:
    async with asyncio.timeout(PATIENCE_S):
        if future := store.buffer.durable:
            await asyncio.shield(future)


async def emptied(store: Store) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store.spool and store.spool.documents:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.02)


def stored(server: EmbeddedMongo, client: MongoClient[dict[str, Any]] | None = None) -> tuple[int, int]:
    """Return how many pages and items are there, each of which is there once."""
    with client or MongoClient[dict[str, Any]](server.url) as found:
        database = found["stream"]
        return database["raw_pages"].count_documents({"fetches": 1}), database["items"].count_documents({})


def is_empty(folder: Path) -> bool:
    return not any(path.is_file() for path in folder.rglob("*"))


async def test_while_mongod_is_dead_all_becomes_durable_and_later_all_is_there_once(
    own_mongo: EmbeddedMongo, config: Config, counts: Counter[str], tmp_path: Path
) -> None:
    """The batches do not wait, one after the other, for a server that is known to be away."""
    async with store_of(config, counts) as store:
        await put(store, range(300))
        own_mongo.kill()
        await put(store, range(300, 1000))
        await durable(store)
        assert store.spool
        assert store.spool.documents == counts["spooled"] >= 1000
        # Those that were under way when it died, and the one that is tried now and then.
        assert counts["retries"] < 10
        await put(store, range(1000, 1200))
        await durable(store)
        await asyncio.to_thread(own_mongo.start)
        await emptied(store)
        await put(store, range(1200, 1300))
        await durable(store)
        assert not store.is_away
    assert stored(own_mongo) == (1300, 1300)
    assert counts["spooled"] == counts["replayed"]
    assert counts["rejected"] == 0
    assert is_empty(tmp_path)


@contextmanager
def failing(server: EmbeddedMongo, *commands: str, times: int | None = None, **how: Any) -> Iterator[None]:
    """Have a server refuse commands, always or so many times."""
    with MongoClient[dict[str, Any]](server.url) as client:
        mode = "alwaysOn" if times is None else {"times": times}
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data={"failCommands": commands, **how})
        try:
            yield
        finally:
            client.admin.command("configureFailPoint", "failCommand", mode="off")


@pytest.mark.parametrize("code", [14031, 13], ids=["disk full", "unauthorized"])
async def test_a_server_that_refuses_for_now(
    own_mongo: EmbeddedMongo, config: Config, counts: Counter[str], tmp_path: Path, code: int
) -> None:
    async with store_of(config, counts) as store:
        with failing(own_mongo, "insert", errorCode=code):
            await put(store, range(200))
            await durable(store)
            assert counts["spooled"] == 400
        await emptied(store)
    assert stored(own_mongo) == (200, 200)
    assert counts["rejected"] == 0
    assert is_empty(tmp_path)


@pytest.mark.parametrize(
    "how",
    [
        {"closeConnection": True},
        {"errorCode": 10107},
        {"errorCode": 11602},
        {"writeConcernError": {"code": 91, "errmsg": "shutting down"}},
        {"errorCode": 133},
    ],
    ids=["line dropped", "not primary", "interrupted", "not by a majority", "no primary for the router"],
)
async def test_what_is_broken_off_once_is_repeated_at_once(
    own_mongo: EmbeddedMongo,
    config: Config,
    counts: Counter[str],
    caplog: pytest.LogCaptureFixture,
    how: dict[str, Any],
) -> None:
    async with store_of(config, counts) as store:
        with failing(own_mongo, "insert", times=1, **how):
            await put(store, range(100))
            await durable(store)
    assert stored(own_mongo) == (100, 100)
    assert (counts["spooled"], counts["retries"], counts["rejected"]) == (0, 0, 0)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_an_account_that_loses_its_rights_in_a_crawl(
    mongo_server: EmbeddedMongo, counts: Counter[str], tmp_path: Path
) -> None:
    """What it brings meanwhile is spooled; but nobody starts with an account that is refused."""
    folder = tmp_path / "spool"
    with SecuredMongo(mongo_server.program, data_dir=tmp_path / "mongo") as server:
        variables = keyed(server) | {"MONGO_DATABASE": "stream"}
        assert setup(server.url, variables).returncode == 0
        account = {"mongo_username": "worker", "mongo_password": PASSWORDS["MONGO_WORKER_PASSWORD"]}
        key = "".join((server.data_dir / "key").read_text().split())
        system = {"username": "__system", "password": key, "authSource": "local"}
        async with store_of(config_of(server.url, folder, **account), counts) as store:
            await put(store, range(50))
            await durable(store)
            with MongoClient[dict[str, Any]](server.url, **system) as client:
                client.admin.command("updateRole", "seedbed_worker", privileges=[], roles=[])
            await put(store, range(50, 200))
            await durable(store)
            assert counts["spooled"] == 300
            assert setup(server.url, variables).returncode == 0
            await emptied(store)
        assert stored(server, MongoClient(server.url, **system)) == (200, 200)
        with pytest.raises(StorageError, match="Authentication failed"):
            await Store.open(
                config_of(server.url, folder, **account | {"mongo_password": "wrong"}),
                lambda *_: None,
                lambda _: None,
            )
    assert is_empty(folder)


async def test_a_primary_that_steps_down(
    own_mongo: EmbeddedMongo, config: Config, counts: Counter[str], tmp_path: Path
) -> None:
    async with store_of(config, counts) as store:
        await put(store, range(100))
        with MongoClient[dict[str, Any]](own_mongo.url) as client:
            command = {"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 0, "force": True}
            await asyncio.to_thread(client.admin.command, command)
        await put(store, range(100, 400))
        await durable(store)
        await emptied(store)
    assert counts["spooled"] > 0
    assert stored(own_mongo) == (400, 400)
    assert is_empty(tmp_path)


async def test_at_the_limits_documents_wait_and_none_is_lost(
    own_mongo: EmbeddedMongo, counts: Counter[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 5: the spool holds 200 KB, the buffer 100 KB, and then whoever gives has to wait."""
    limits = {"store_spool_bytes": 200_000, "store_buffer_bytes": 100_000}
    async with store_of(config_of(own_mongo.url, tmp_path, **limits), counts) as store:

        async def give() -> None:
            for number in range(400):
                await store.buffer.wait_for_room()
                await put(store, range(number, number + 1))

        own_mongo.kill()
        giving = asyncio.create_task(give())
        async with asyncio.timeout(PATIENCE_S):
            while not (store.buffer.is_full and "at its limit" in caplog.text):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.02)
        assert store.spool
        assert 100_000 < store.spool.size_bytes <= 200_000
        assert store.buffer.size_bytes < 110_000
        await asyncio.to_thread(own_mongo.start)
        await asyncio.wait_for(giving, PATIENCE_S)
        await durable(store)
        await emptied(store)
    assert stored(own_mongo) == (400, 400)
    assert is_empty(tmp_path)


async def test_a_worker_that_stops_leaves_its_last_documents_to_the_next(
    own_mongo: EmbeddedMongo, config: Config, counts: Counter[str], tmp_path: Path
) -> None:
    """Case M7: MongoDB hangs, so that nobody knows yet that it is away."""
    async with store_of(config, counts, wholly=False) as store:
        await put(store, range(10))
        await durable(store)
        os.kill(own_mongo.pid, signal.SIGSTOP)
        await put(store, range(10, 100))
        waiting = store.buffer.durable
    try:
        assert waiting is not None
        assert waiting.done()
        assert not is_empty(tmp_path)
    finally:
        os.kill(own_mongo.pid, signal.SIGCONT)
    async with store_of(config, counts) as heir:
        await emptied(heir)
    assert stored(own_mongo) == (100, 100)
    assert counts["replayed"] == counts["spooled"] > 0
    assert is_empty(tmp_path)


async def test_a_worker_may_start_while_mongodb_is_away(
    own_mongo: EmbeddedMongo, config: Config, counts: Counter[str], tmp_path: Path
) -> None:
    own_mongo.kill()
    async with store_of(config, counts) as store:
        await put(store, range(50))
        await durable(store)
        await asyncio.to_thread(own_mongo.start)
        await emptied(store)
    assert stored(own_mongo) == (50, 50)
    own_mongo.kill()
    with pytest.raises(StorageError, match="can't be used"):
        await Store.open(config_of(own_mongo.url, tmp_path, store_spool_bytes=0), lambda *_: None, lambda _: None)


async def test_what_mongodb_refuses_for_what_it_is_is_set_aside_from_the_spool_too(
    own_mongo: EmbeddedMongo, config: Config, counts: Counter[str], tmp_path: Path
) -> None:
    """Invariant 7."""
    wrong = Document.encoded(
        "items", bson.encode({"_id": [1], "source_url": "http://site.example/wrong", "crawled_at": NOW})
    )
    own_mongo.kill()
    async with store_of(config, counts) as store:
        await put(store, range(20))
        store.buffer.put(wrong)
        await durable(store)
        await asyncio.to_thread(own_mongo.start)
        await emptied(store)
    assert stored(own_mongo) == (20, 20)
    assert counts["rejected"] == 1
    assert is_empty(tmp_path)
