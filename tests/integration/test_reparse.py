"""Stored pages parsed again: as in the crawl, but without a download; their new items take the places of the old."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import MongoClient

from bench.demo.worker import ROOT, WorkerProcess
from bench.site import SiteConfig, SiteProcess
from tests.integration.tiny_site import Answer, TinySite

SPIDERS = ("-s", "SPIDER_MODULES=tests.integration.reparse_spiders")
BOOKS = 5

Start = Callable[..., WorkerProcess]
Content = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def site() -> Iterator[TinySite]:
    with TinySite() as site:
        links = "".join(f'<a class=book href="/book/{number}">b</a>' for number in range(BOOKS))
        html = {"Content-Type": "text/html"}
        site.pages["/"] = Answer(links.encode(), headers=html)
        for number in range(BOOKS):
            site.pages[f"/book/{number}"] = Answer(f"<h1>Book number {number}</h1>".encode(), headers=html)
        site.pages["/moved"] = Answer(status=302, headers={"Location": "/there"})
        site.pages["/there"] = Answer(
            b'{"a": "\xff"}', headers={"Content-Type": "application/json", "X.Odd": "\xff", "Set-Cookie": "a=1"}
        )
        site.pages["/other"] = Answer(b"<h1>other</h1>", headers=html)
        site.pages["/more"] = Answer(b"more", headers=html)
        yield site


@pytest.fixture
def database(environ: dict[str, str]) -> Iterator[Any]:
    with MongoClient[dict[str, Any]](environ["MONGO_URI"]) as client:
        yield client[environ["MONGO_DATABASE"]]


@pytest.fixture
def reparse(environ: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Give the function that runs `scrapy reparse ARGUMENTS…`, with settings as keywords, without any Redis."""

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error::DeprecationWarning:crawler", "-m", "scrapy", "reparse", *arguments]
        nowhere = {"REDIS_URL": "redis://127.0.0.1:1/0"}
        return subprocess.run(
            command,
            env=environ | nowhere | settings,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def first_crawl() -> Content:
    """Give what the crawl of the tiny site stored, once there was one."""
    return {}


@pytest.fixture
def crawled(site: TinySite, worker: Start, ended: Callable[..., None], database: Any, first_crawl: Content) -> TinySite:
    """Have the tiny site crawled by the parser's first version; give the site, which was asked nothing since."""
    if first_crawl:
        for name, documents in first_crawl.items():
            database[name].insert_many(documents)
    else:
        ended(worker("shelf", *SPIDERS, "-a", f"url={site.url}"))
        first_crawl |= content(database)
    site.asked.clear()
    return site


def content(database: Any) -> Content:
    return {name: list(database[name].find(sort=[("_id", 1)])) for name in sorted(database.list_collection_names())}


def without(items: list[dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in item.items() if name not in fields} for item in items]


def test_a_whole_shop_parsed_again_is_as_it_was(
    worker: Start, ended: Callable[..., None], reparse: Any, database: Any
) -> None:
    """Nothing is fetched, no page is touched, and each item comes again, with the same key and the same page."""
    with SiteProcess(SiteConfig(port=0, products=100)) as site:
        hosts = ",".join(site.config.host_names)
        ended(worker("shop", "-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}"))
    before = content(database)
    assert len(before["products"]) > 50
    for _ in range(2):
        done = reparse("shop", "-a", f"allowed_domains={hosts}", "--json")
        assert done.returncode == 0, done.stderr
        outcome = json.loads(done.stdout)
        assert outcome["parsed"] == len(before["raw_pages"])
        assert outcome["items"] == outcome["unchanged"] >= len(before["products"])
        assert outcome["requests"] > 100
        after = content(database)
        assert after["raw_pages"] == before["raw_pages"]
        assert without(after["products"], "parsed_at") == without(before["products"], "parsed_at")
    database["products"].drop()
    assert reparse("shop", "-a", f"allowed_domains={hosts}").returncode == 0
    again = content(database)["products"]
    assert without(again, "parsed_at", "updated_at") == without(before["products"], "parsed_at", "updated_at")


def test_a_page_comes_to_its_callback_as_in_the_crawl(crawled: TinySite, reparse: Any, database: Any) -> None:
    """Class, address, status, headers, body, flags; callback, cb_kwargs and meta of its request."""
    seen = list(database["items"].find({"kind": {"$exists": True}}, sort=[("_id", 1)]))
    assert [item["kind"] for item in seen].count("JsonResponse") == 1
    assert sorted(item["sent"] for item in seen) == [b"", b"q=1", b"q=2"]
    database["items"].drop()
    database["books"].drop()
    done = reparse("shelf", *SPIDERS)
    assert done.returncode == 0, done.stderr
    again = list(database["items"].find({"kind": {"$exists": True}}, sort=[("_id", 1)]))
    assert without(again, "parsed_at", "updated_at") == without(seen, "parsed_at", "updated_at")
    assert {book["shelf"] for book in database["books"].find()} == {7}
    assert database["items"].count_documents({"from": "start"}) == 0, "nothing begins anew"
    assert not crawled.asked


def test_a_new_parser_s_items_stand_in_the_place_of_the_old_ones(
    crawled: TinySite, worker: Start, ended: Callable[..., None], reparse: Any, database: Any
) -> None:
    ended(worker("other", *SPIDERS, "-a", f"url={crawled.url}"))
    before = content(database)
    done = reparse("shelf", *SPIDERS, "-a", "version=2", "--json")
    assert done.returncode == 1, "a callback raised"
    outcome = json.loads(done.stdout)
    names = ("parsed", "failed", "failed_items", "dropped", "rejected", "changed", "new", "unreadable", "requests")
    assert {name: outcome[name] for name in names} == {
        "parsed": 1 + BOOKS + 3,
        "failed": 1,
        "failed_items": 3,
        "dropped": 3,
        "rejected": 3,
        "changed": BOOKS - 1,
        "new": 0,
        "unreadable": 0,
        "requests": BOOKS + 3,
    }
    assert f"{crawled.url}/book/2: ValueError: the parser is wrong here" in outcome["troubles"]
    assert f"went wrong: {crawled.url}/book/2: ValueError" in done.stderr
    after = content(database)
    assert after["raw_pages"] == before["raw_pages"]
    books = {book["isbn"]: book for book in after["books"]}
    assert books["1"]["title"] == "BOOK NUMBER 1"
    assert books["2"]["title"] == "Book number 2", "what its callback gave once stays"
    began_at = datetime.fromisoformat(outcome["parsed_at"]).astimezone(UTC).replace(tzinfo=None)
    old = {book["isbn"]: book for book in before["books"]}
    assert books["1"]["updated_at"] == books["1"]["parsed_at"] == began_at
    assert books["1"]["crawled_at"] == old["1"]["crawled_at"]
    # The query that docs/storage.md gives for items that the new parser did not give again.
    left = database["items"].find(
        {"_raw_id": {"$ne": None}, "parsed_at": {"$lt": began_at}, "words": {"$exists": True}}
    )
    assert {item["source_url"].rpartition("/")[2] for item in left} == {"0", "2"}
    assert [item for item in after["items"] if item["source_url"].endswith("/other")] == [
        item for item in before["items"] if item["source_url"].endswith("/other")
    ]


def test_the_same_run_again_and_a_crawl_after_it(
    crawled: TinySite, worker: Start, ended: Callable[..., None], reparse: Any, database: Any
) -> None:
    """Invariant 3: parsing twice is parsing once; and a page that is fetched later has the last word."""
    reparse("shelf", *SPIDERS, "-a", "version=2")
    once = content(database)
    outcome = json.loads(reparse("shelf", *SPIDERS, "-a", "version=2", "--json").stdout)
    assert (outcome["new"], outcome["changed"]) == (0, 0)
    assert without(content(database)["books"], "parsed_at") == without(once["books"], "parsed_at")
    ended(worker("shelf", *SPIDERS, "-a", f"url={crawled.url}"))
    after = content(database)
    assert {book["title"] for book in after["books"]} == {f"Book number {number}" for number in range(BOOKS)}
    assert {page["fetches"] for page in after["raw_pages"]} == {2}
    assert {page["changed_at"] for page in after["raw_pages"]} == {page["crawled_at"] for page in once["raw_pages"]}


def test_a_dry_run_says_what_would_change_and_writes_nothing(crawled: TinySite, reparse: Any, database: Any) -> None:
    before = content(database)
    done = reparse("shelf", *SPIDERS, "-a", "version=2", "--dry-run")
    assert done.returncode == 1
    assert re.search(rf"^  changed +{BOOKS - 1}$", done.stdout, re.MULTILINE)
    assert "nothing was written (--dry-run)" in done.stdout
    assert content(database) == before


def test_pages_are_chosen_by_address_date_and_number(crawled: TinySite, reparse: Any) -> None:
    def parsed(*arguments: str) -> int:
        done = reparse("shelf", *SPIDERS, "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["parsed"])

    assert parsed("--url", r"^http://127.0.0.1:\d+/form$", "--until", "2100-01-01") == 2, "two pages of one address"
    assert parsed("--since", "2020-01-01", "--limit", "3") == 3
    assert parsed("--until", "1h") == 0


def test_a_page_that_can_t_be_read_is_named_and_the_others_are_parsed(
    crawled: TinySite, reparse: Any, database: Any
) -> None:
    pages = database["raw_pages"]
    for number, change in enumerate(
        [{"seed": None}, {"seed": b"parse_gone--http://a.example/"}, {"body": b"no zstd"}, {"seed": b"\x80pickle"}]
    ):
        pages.update_one({"url": f"{crawled.url}/book/{number}"}, {"$set": change})
    pages.update_one({"url": f"{crawled.url}/"}, {"$unset": {"seed": 1}})
    done = reparse("shelf", *SPIDERS, "--json")
    outcome = json.loads(done.stdout)
    assert (done.returncode, outcome["unreadable"], outcome["parsed"]) == (1, 5, pages.count_documents({}) - 5)
    why = "\n".join(outcome["troubles"])
    assert f"{crawled.url}/book/0: its request was not stored with it" in why
    assert "its callback 'parse_gone' is no method of the spider 'shelf'" in why
    assert "its document can't be read: ZstdError" in why


def test_what_a_callback_would_download_is_not(
    site: TinySite, worker: Start, ended: Callable[..., None], reparse: Any
) -> None:
    site.asked.clear()
    ended(worker("fetching", *SPIDERS, "-a", f"url={site.url}"))
    assert site.statuses() == {"/": [200], "/more": [200]}
    done = reparse("fetching", *SPIDERS, "--json")
    assert done.returncode == 1
    outcome = json.loads(done.stdout)
    assert (outcome["not_fetched"], outcome["failed"]) == (1, 1)
    assert outcome["troubles"] == [
        f"{site.url}/more: nothing is fetched while stored pages are parsed again",
        f"{site.url}/: IgnoreRequest: nothing is fetched while stored pages are parsed again",
    ]
    assert not site.asked


def test_items_that_mongodb_does_not_take_in_time_are_told(crawled: TinySite, reparse: Any, database: Any) -> None:
    admin = database.client.admin
    admin.command("fsync", lock=True)
    try:
        done = reparse("shelf", *SPIDERS, STORE_CLOSE_S="1")
    finally:
        admin.command("fsyncUnlock")
    assert done.returncode == 1
    assert "it ended early: MongoDB did not take the last " in done.stderr


def test_what_can_t_begin_says_why(environ: dict[str, str], reparse: Any) -> None:
    done = reparse("shelf", *SPIDERS, MONGO_URI="mongodb://127.0.0.1:1", STORE_CONNECT_S="0.2")
    assert done.returncode == 2
    assert "MongoDB at mongodb://127.0.0.1:1 can't be used" in done.stderr
    done = reparse("no-such-spider")
    assert done.returncode == 2
    assert "no spider 'no-such-spider'; it has: " in done.stderr
    done = reparse("shop", "--since", "yesterday")
    assert done.returncode == 2
    assert "'yesterday' is no point in time" in done.stderr


def test_a_pattern_wants_the_index_and_must_be_one(environ: dict[str, str], reparse: Any, database: Any) -> None:
    database["raw_pages"].insert_one({"spider": "shop"})
    done = reparse("shop", "--url", "x")
    assert done.returncode == 1
    assert "raw_pages has no index on url, which `python -m crawler.storage.setup` makes" in done.stderr
    database["raw_pages"].create_index("url")
    done = reparse("shop", "--url", "(")
    assert done.returncode == 1
    assert "it ended early: MongoDB: the pages whose address matches '(' can't be read" in done.stderr
    database["raw_pages"].delete_many({})
    done = reparse("shop", "--url", "x")
    assert done.returncode == 0
    assert "no page of 'shop' in raw_pages fits what was asked for" in done.stderr
    done = reparse("shop", "--limit", "0")
    assert done.returncode == 2
    assert "--limit 0: 1 or more is wanted" in done.stderr
