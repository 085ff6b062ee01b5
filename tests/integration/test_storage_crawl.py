"""The storage in crawls under Scrapy's own scheduler: what is stored, a worker that stops, a MongoDB that hangs."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from bench.demo.worker import ROOT
from bench.servers import EmbeddedMongo
from crawler.seeds import decode
from crawler.storage.documents import body_of
from tests.integration.storage_spider import StorageSpider

SPIDER = Path(__file__).with_name("storage_spider.py")


class Site(http.server.ThreadingHTTPServer):
    """Serves the spider's pages; those with a number wait for the gate, the first ten apart."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.served: Counter[str] = Counter()
        self.gate = threading.Event()
        self.flood_gate = threading.Event()
        self.flood_gate.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        kind, _, number = self.path[1:].partition("/")
        if number.isdigit() and int(number) >= 10:
            self.server.gate.wait(60)
        elif number == "flood":
            self.server.flood_gate.wait(60)
        status = 404 if kind in {"missing", "asked", "filtered"} else 302 if kind == "moved" else 200
        self._answer(status, f"<title>{kind}</title>".encode())

    def do_POST(self) -> None:
        self._answer(200, self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/target")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.served[self.path] += 1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.gate.set()
            server.flood_gate.set()
            server.shutdown()
            thread.join()


@contextmanager
def crawl(
    mongo_uri: str, database: str, *arguments: str, options: Sequence[str] = (), **settings: str
) -> Iterator[subprocess.Popen[str]]:
    environ = {"PATH": os.environ["PATH"], "MONGO_URI": mongo_uri, "MONGO_DATABASE": database, **settings}
    command = [
        sys.executable,
        "-W",
        "error::DeprecationWarning:crawler",
        "-m",
        "scrapy",
        "runspider",
        str(SPIDER),
        *options,
    ]
    for argument in arguments:
        command += ["-a", argument]
    process = subprocess.Popen(
        command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], timeout_s: float = 60) -> str:
    output, _ = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, output
    return output


@pytest.fixture
def database(mongo_uri: str, mongo_db: str) -> Iterator[Any]:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        yield client[mongo_db]


def test_what_a_crawl_stores(site: Site, mongo_uri: str, mongo_db: str, database: Any) -> None:
    """Every page that reaches a spider, every item that passes the pipelines; a second crawl adds nothing (M6)."""
    for fetches in (1, 2):
        with crawl(mongo_uri, mongo_db, f"url={site.url}") as process:
            log = ended(process)
        pages = list(database["raw_pages"].find())
        assert Counter((page["url"].removeprefix(site.url), page["status"]) for page in pages) == {
            ("", 200): 1,
            ("asked", 404): 1,
            ("target", 200): 1,
            ("post", 200): 2,
            ("lambda", 200): 1,
        }
        assert {page["fetches"] for page in pages} == {fetches}
        assert {body_of(page) for page in pages if page["url"].endswith("post")} == {b"a", b"b"}
        spider = StorageSpider(site.url)
        requests = [decode(page["seed"], spider) for page in pages if page["seed"]]
        assert Counter((request.method, request.body, request.callback) for request in requests) == {
            ("GET", b"", None): 1,
            ("GET", b"", spider.parse_one): 2,
            ("POST", b"a", spider.parse_one): 1,
            ("POST", b"b", spider.parse_one): 1,
        }
        assert [page["url"] for page in pages if not page["seed"]] == [f"{site.url}lambda"]
        items = list(database["items"].find())
        by_place = {item["_id"]["item"]: (item["n"], item["pipeline"]) for item in items if "n" in item}
        assert by_place == {1: (1, "replace"), 3: (3, "delay"), 4: (4, "none"), 5: (5, "none")}
        assert Counter(item.get("failure") for item in items if "failure" in item) == {
            "HttpError": 1,
            "DownloadConnectionRefusedError": 1,
        }
        assert len(items) == 4 + 1 + 2 + 4, "of the page, of the start, of the failures, of the others"
        kept = {page["_id"] for page in pages}
        assert all((item["_raw_id"] in kept) == ("failure" not in item and "from" not in item) for item in items)
        (reject,) = database["rejects"].find()
        assert (reject["url"], reject["_id"]["key"]["item"]) == (site.url, 6)
        assert "['lock']: a builtins.method" in reject["reason"]
        assert "'storage/rejected': 1" in log
        assert "'storage/pages_stored': 6" in log
        assert "'storage/pages_without_seed': 1" in log
        assert "'storage/items_stored': 11" in log


def test_what_waits_in_the_buffer_is_stored_when_a_worker_stops(
    site: Site, mongo_uri: str, mongo_db: str, database: Any, eventually: Callable[..., None]
) -> None:
    """Case M7: 250 items, a buffer that is not full, SIGTERM: 250 stored."""
    site.gate.set()
    settings = {"STORE_BATCH_DOCS": "150", "STORE_FLUSH_S": "3600", "CONCURRENT_REQUESTS_PER_DOMAIN": "16"}
    with crawl(mongo_uri, mongo_db, f"url={site.url}", "pages=3000", **settings) as process:
        eventually(lambda: site.served.total() >= 250, 60)
        process.send_signal(signal.SIGTERM)
        ended(process)
    assert database["raw_pages"].count_documents({}) == site.served.total() >= 250
    assert database["items"].count_documents({}) == site.served.total()


@pytest.fixture
def own_mongo(mongo_server: EmbeddedMongo) -> Iterator[EmbeddedMongo]:
    """Give a server that a test may stop."""
    with EmbeddedMongo(mongo_server.program, replica_set="rs0") as server:
        yield server


@contextmanager
def standing_still(server: EmbeddedMongo) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_the_crawl_goes_on_while_mongodb_stands_still(
    site: Site, own_mongo: EmbeddedMongo, eventually: Callable[..., None]
) -> None:
    """Case M5: the pages come at the same rate, and are all stored in the end."""
    with crawl(own_mongo.url, "crawl", f"url={site.url}", "pages=100", STORE_FLUSH_S="0.1") as process:
        eventually(lambda: site.served.total() >= 10, 60)
        with standing_still(own_mongo):
            site.gate.set()
            eventually(lambda: site.served.total() == 100, 60)
        ended(process)
    with MongoClient[dict[str, Any]](own_mongo.url) as client:
        assert client["crawl"]["raw_pages"].count_documents({}) == 100
        assert client["crawl"]["items"].count_documents({}) == 100


@pytest.mark.parametrize("options", [(), ("-s", "CLOSESPIDER_ITEMCOUNT=50")], ids=["told to stop", "has enough"])
def test_a_worker_whose_buffer_is_full_stops_although_mongodb_is_away(
    site: Site, own_mongo: EmbeddedMongo, tmp_path: Path, eventually: Callable[..., None], options: Sequence[str]
) -> None:
    progress = tmp_path / "progress"
    site.flood_gate.clear()
    settings = {"STORE_FLUSH_S": "0.1", "STORE_BUFFER_BYTES": "1000000", "STORE_CLOSE_S": "1", "STORE_CONNECT_S": "1"}
    with crawl(
        own_mongo.url, "crawl", f"url={site.url}", "pages=60", f"flood={progress}", options=options, **settings
    ) as process:
        eventually(lambda: site.served.total() >= 10, 60)
        own_mongo.kill()
        site.flood_gate.set()
        eventually(lambda: progress.exists() and int(progress.read_text() or 0) >= 100, 60)
        site.gate.set()
        if not options:
            process.send_signal(signal.SIGTERM)
        log = ended(process)
    assert "their pages will be fetched again" in log


def test_a_crawl_without_storage_needs_no_mongodb(site: Site) -> None:
    site.gate.set()
    with crawl("mongodb://127.0.0.1:1", "crawl", f"url={site.url}", "pages=20", STORAGE="false") as process:
        assert "'item_scraped_count': 20" in ended(process)


def test_a_callback_without_end_waits_for_room(
    site: Site, own_mongo: EmbeddedMongo, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    """Invariant 5: the buffer holds 1 MB, and the callback that would give 20 MB stops until MongoDB goes on."""
    progress = tmp_path / "progress"
    arguments = (f"url={site.url}", "pages=60", f"flood={progress}")
    settings = {"STORE_FLUSH_S": "0.1", "STORE_BUFFER_BYTES": "1000000"}
    with crawl(own_mongo.url, "crawl", *arguments, **settings) as process:
        eventually(lambda: site.served.total() >= 10, 60)
        with standing_still(own_mongo):
            eventually(lambda: progress.exists() and int(progress.read_text() or 0) >= 100, 60)
            site.gate.set()
            # Other pages go on meanwhile, so it is not for lack of time that the callback stops.
            eventually(lambda: site.served.total() == 61, 60)
            assert int(progress.read_text()) < 1000
        ended(process)
    with MongoClient[dict[str, Any]](own_mongo.url) as client:
        assert client["crawl"]["items"].count_documents({}) == 2060
