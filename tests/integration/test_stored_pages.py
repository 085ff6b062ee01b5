"""Reading stored pages from a real mongod: each once, in constant memory, wherever the reading is cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from bench.servers import EmbeddedMongo
from crawler.config import Config
from crawler.errors import StorageError
from crawler.storage import stored
from crawler.storage.client import Database, open_database
from crawler.storage.stored import Selection, read

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PAGES = 25


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "BATCH_PAGES", 10)
    monkeypatch.setattr(stored, "PAUSE_S", 0.05)


def fill(uri: str, database: str) -> None:
    with MongoClient[dict[str, Any]](uri) as client:
        pages = client[database]["raw_pages"]
        pages.create_index("url")
        pages.create_index("crawled_at")
        # Five pages of each address, and five of each time.
        pages.insert_many(
            {
                "_id": number.to_bytes(16, "big"),
                "url": f"http://site.example/{number // 5}",
                "crawled_at": NOW + timedelta(hours=number % 5),
                "spider": "site" if number < PAGES else "other",
            }
            for number in range(2 * PAGES)
        )


@pytest.fixture
async def database(mongo_uri: str, mongo_db: str) -> AsyncIterator[Database]:
    fill(mongo_uri, mongo_db)
    database = open_database(Config(mongo_uri=mongo_uri, mongo_database=mongo_db))
    yield database
    await database.client.close()


ORDERS = [
    Selection("site"),
    Selection("site", url=r"^http://site\.example/"),
    Selection("site", since=NOW, until=NOW + timedelta(days=1)),
]


@pytest.mark.parametrize("selection", ORDERS, ids=lambda selection: selection.order)
@pytest.mark.parametrize("cut_after", [1, 10, 12, 20])
async def test_reading_goes_on_where_it_was_cut_off(selection: Selection, cut_after: int, database: Database) -> None:
    found = []
    async for page in read(database, selection):
        found.append(int.from_bytes(page["_id"]))
        if len(found) == cut_after:
            await database.client.admin.command("killAllSessions", [])
    assert sorted(found) == list(range(PAGES))


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection("nobody"), set()),
        (Selection("other"), set(range(PAGES, 2 * PAGES))),
        (Selection("site", url="/[13]$"), {*range(5, 10), *range(15, 20)}),
        (Selection("site", since=NOW + 3 * HOUR), {number for number in range(PAGES) if number % 5 >= 3}),
        (Selection("site", until=NOW + HOUR), {0, 5, 10, 15, 20}),
        (Selection("site", url="/1$", since=NOW + HOUR, until=NOW + 3 * HOUR), {6, 7}),
    ],
    ids=["a spider without any", "another spider", "url", "since", "until", "all of them"],
)
async def test_which_pages_are_meant(selection: Selection, expected: set[int], database: Database) -> None:
    assert {int.from_bytes(page["_id"]) async for page in read(database, selection)} == expected


async def test_reading_waits_for_a_server_that_is_away(mongo_server: EmbeddedMongo) -> None:
    with EmbeddedMongo(mongo_server.program, replica_set="rs0") as server:
        fill(server.url, "crawl")
        database = open_database(Config(mongo_uri=server.url, mongo_database="crawl", store_connect_s=0.2))
        found = []
        async for page in read(database, Selection("site")):
            found.append(int.from_bytes(page["_id"]))
            if len(found) == 10:
                server.kill()
                server.start()
        await database.client.close()
    assert found == list(range(PAGES))


async def test_what_mongodb_refuses_is_said(database: Database) -> None:
    with pytest.raises(StorageError, match=r"the pages whose address matches '\(' can't be read"):
        await anext(read(database, Selection("site", url="(")))
    await database["raw_pages"].drop_indexes()
    with pytest.raises(StorageError, match="raw_pages has no index on url"):
        await anext(read(database, Selection("site", url="x")))
