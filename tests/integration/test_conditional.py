"""Conditional requests against a real site: what has not changed is taken from MongoDB, and nothing else differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard
from pymongo import MongoClient

from bench.demo.worker import WorkerProcess
from crawler.storage.documents import body_of
from tests.integration.tiny_site import Answer, TinySite

SPIDERS = ("-s", "SPIDER_MODULES=tests.integration.reparse_spiders")
MODIFIED = "Mon, 30 Nov 2026 10:00:00 GMT"

Crawl = Callable[..., WorkerProcess]


@pytest.fixture
def site() -> Iterator[TinySite]:
    with TinySite() as site:
        html = {"Content-Type": "text/html"}
        site.pages["/"] = Answer(
            b"".join(b'<a class=book href="/book/%d">b</a>' % number for number in range(3)),
            headers=html | {"ETag": '"0"'},
        )
        site.pages["/book/0"] = Answer(b"<h1>Zero</h1>", headers=html | {"ETag": 'W/"0\xe9"', "X-Age": "old"})
        site.pages["/book/1"] = Answer(b"<h1>One</h1>", headers=html | {"Last-Modified": MODIFIED})
        site.pages["/book/2"] = Answer(b"<h1>Two</h1>", headers=html)
        site.pages["/moved"] = Answer(status=302, headers={"Location": "/there", "ETag": '"moved"'})
        site.pages["/there"] = Answer(b"there", headers={"Content-Type": "text/plain", "ETag": '"there"'})
        yield site


@pytest.fixture
def database(environ: dict[str, str]) -> Iterator[Any]:
    with MongoClient[dict[str, Any]](environ["MONGO_URI"]) as client:
        yield client[environ["MONGO_DATABASE"]]


@pytest.fixture
def crawl(site: TinySite, worker: Callable[..., WorkerProcess], ended: Callable[..., None]) -> Crawl:
    """Give the function that crawls the site once more, with conditions, and returns the worker."""

    def run(**settings: str) -> WorkerProcess:
        process = worker("shelf", *SPIDERS, "-a", f"url={site.url}", **{"CRAWL_CONDITIONAL": "true", **settings})
        ended(process)
        return process

    return run


def pages_of(database: Any, site: TinySite) -> dict[str, dict[str, Any]]:
    return {
        page["url"].removeprefix(site.url): page for page in database["raw_pages"].find() if "/form" not in page["url"]
    }


FIRST = {"/": [200], "/book/0": [200], "/book/1": [200], "/book/2": [200], "/moved": [302], "/there": [200]}
AGAIN = {"/": [304], "/book/0": [304], "/book/1": [304], "/book/2": [200], "/moved": [302], "/there": [304]}
FORMS = {"/form": [200, 200]}


def test_what_has_not_changed_is_not_sent_again(site: TinySite, crawl: Crawl, database: Any) -> None:
    """Links are followed, items come, `fetches` counts; and only the two pages that changed are new."""
    crawl()
    assert site.statuses() == FIRST | FORMS
    first = pages_of(database, site)
    site.pages["/book/0"].headers["X-Age"] = "new"
    assert crawl().stat("storage/not_modified") == 4
    assert site.statuses() == AGAIN | FORMS
    second = pages_of(database, site)
    for path, page in second.items():
        assert page["fetches"] == 2
        assert page["crawled_at"] > first[path]["crawled_at"]
        assert page["changed_at"] == first[path]["crawled_at"]
        assert page["status"] == 200
        assert body_of(page) == site.pages[path].body
        assert page["seed"] == first[path]["seed"]
        assert page["flags"] == ([] if path == "/book/2" else ["not-modified"])
    assert second["/book/0"]["headers"]["X-Age"] == ["new"]
    assert second["/book/0"]["headers"]["Content-Length"] == [str(len(site.pages["/book/0"].body))]
    books = list(database["books"].find(sort=[("_id", 1)]))
    assert [(book["title"], book["crawled_at"] > book["updated_at"]) for book in books] == [
        ("Zero", True),
        ("One", True),
        ("Two", True),
    ]
    site.pages["/book/0"].body, site.pages["/book/0"].headers["ETag"] = b"<h1>Nought</h1>", '"1"'
    site.pages["/book/1"].body, site.pages["/book/1"].headers["Last-Modified"] = (
        b"<h1>I</h1>",
        MODIFIED.replace("30", "29"),
    )
    assert crawl().stat("storage/not_modified") == 2
    assert site.statuses() == AGAIN | FORMS | {"/book/0": [200], "/book/1": [200]}
    third = pages_of(database, site)
    assert {path for path, page in third.items() if page["changed_at"] == page["crawled_at"]} == {"/book/0", "/book/1"}
    assert {page["fetches"] for page in third.values()} == {3}
    assert (third["/"]["flags"], third["/book/0"]["flags"]) == (["not-modified"], [])
    assert {book["title"] for book in database["books"].find()} == {"Nought", "I", "Two"}


def test_a_stored_page_that_can_t_be_given_is_fetched_again(site: TinySite, crawl: Crawl, database: Any) -> None:
    crawl()
    database["raw_pages"].update_one({"url": f"{site.url}/book/0"}, {"$set": {"body": b"no zstd"}})
    database["raw_pages"].delete_one({"url": f"{site.url}/book/1"})
    site.statuses()
    crawl()
    assert site.statuses() == AGAIN | FORMS | {"/book/0": [304, 200], "/book/1": [200]}
    pages = pages_of(database, site)
    assert body_of(pages["/book/0"]) == b"<h1>Zero</h1>"
    assert not [name for name in (b"unconditional", b"User-Agent", b"retry") if name in pages["/book/0"]["seed"]]
    assert {book["title"] for book in database["books"].find()} == {"Zero", "One", "Two"}


@pytest.mark.parametrize("flag", ["dataloss", "download_stopped"])
def test_a_page_that_did_not_come_whole_is_fetched_whole(
    site: TinySite, crawl: Crawl, database: Any, flag: str
) -> None:
    crawl()
    cut = {"body": zstandard.compress(b"<h1>Ze"), "flags": [flag]}
    database["raw_pages"].update_one({"url": f"{site.url}/book/0"}, {"$set": cut})
    site.statuses()
    crawl()
    assert site.statuses() == AGAIN | FORMS | {"/book/0": [200]}
    page = pages_of(database, site)["/book/0"]
    assert (body_of(page), page["flags"]) == (b"<h1>Zero</h1>", [])


def test_a_page_that_another_worker_stored_meanwhile_is_not_taken_for_the_one_asked_for(
    site: TinySite, crawl: Crawl, database: Any
) -> None:
    """Else the body of the one would be stored with the ETag of the other, and never be fetched again."""
    crawl()
    newer = {"body": zstandard.compress(b"<h1>Newer</h1>"), "headers.Etag": ['"newer"']}

    class Pages(dict[str, Answer]):
        def get(self, path: str, default: Any = None) -> Any:
            if path == "/book/0":
                database["raw_pages"].update_one({"url": f"{site.url}/book/0"}, {"$set": newer})
            return super().get(path, default)

    site.pages = Pages(site.pages)
    site.statuses()
    crawl()
    assert site.statuses() == AGAIN | FORMS | {"/book/0": [304, 200]}
    assert body_of(pages_of(database, site)["/book/0"]) == b"<h1>Zero</h1>"


def test_without_the_setting_each_page_is_fetched(site: TinySite, crawl: Crawl, database: Any) -> None:
    """A page that comes as it was only counts the fetch; one that has changed is stored with the time of the change."""
    crawl(CRAWL_CONDITIONAL="")
    first = pages_of(database, site)
    site.pages["/book/2"].body = b"<h1>II</h1>"
    site.statuses()
    crawl(CRAWL_CONDITIONAL="false")
    assert site.statuses() == FIRST | FORMS
    second = pages_of(database, site)
    assert {page["fetches"] for page in second.values()} == {2}
    for path, page in second.items():
        has_changed = path == "/book/2"
        assert (page["changed_at"] == page["crawled_at"]) == has_changed
        assert (page["changed_at"] == first[path]["changed_at"]) != has_changed
        assert (page["checksum"] == first[path]["checksum"]) != has_changed
    assert body_of(second["/book/2"]) == b"<h1>II</h1>"
