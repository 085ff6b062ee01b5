"""The main job: workers share a crawl and store exactly the pages that they must, each once."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from pymongo import MongoClient
from redis import Redis
from scrapy.linkextractors import IGNORED_EXTENSIONS

from bench.demo.worker import ROOT, WorkerProcess
from bench.site import SiteConfig, SiteProcess, canonical_url, expected_pages, expected_products
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys

#: Debian's python3-doc: over 500 real pages.
DOCS = Path("/usr/share/doc/python3-doc/html")

Start = Callable[..., WorkerProcess]


def test_two_workers_store_exactly_the_pages_of_the_sample_site(
    worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    with SiteProcess(SiteConfig(port=0, products=400)) as site:
        hosts = ",".join(site.config.host_names)
        arguments = ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")
        workers = [worker("shop", *arguments) for _ in range(2)]
        ended(*workers)
        expected = expected_pages(site.config)
        products = set(expected_products(site.config))
    with _database(environ) as database:
        pages = list(database["raw_pages"].find({}, {"url": 1, "fetches": 1}))
        assert {canonical_url(page["url"]) for page in pages} == expected
        assert len(pages) == len(expected)
        assert {item["sku"] for item in database["products"].find()} == products
    assert all(process.stat("storage/pages_stored") for process in workers), "one worker did all of the work"
    _assert_complete(environ, "shop")


def test_a_killed_worker_loses_no_page(
    worker: Start, ended: Callable[..., None], eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    """Cases L1, L2: what a dead worker held is fetched by the others, once its leases have ended."""
    with SiteProcess(SiteConfig(port=0, products=300)) as site, _database(environ) as database:
        hosts = ",".join(site.config.host_names)
        arguments = ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")
        victim, survivor = (worker("shop", *arguments, FRONTIER_LEASE_S="2") for _ in range(2))
        eventually(lambda: database["raw_pages"].estimated_document_count() > 30, 60)
        victim.kill()
        ended(survivor)
        stored = [canonical_url(page["url"]) for page in database["raw_pages"].find({}, {"url": 1})]
        expected = expected_pages(site.config)
    assert set(stored) == expected
    assert len(stored) == len(expected)
    _assert_complete(environ, "shop")


def test_a_stopped_worker_gives_back_what_it_has_not_begun(
    worker: Start, ended: Callable[..., None], eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    """Cases L3, I5: SIGTERM leaves no lease behind, and the next worker goes on where this one was."""
    with SiteProcess(SiteConfig(port=0, products=300)) as site, _database(environ) as database:
        hosts = ",".join(site.config.host_names)
        arguments = ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")
        first = worker("shop", *arguments)
        eventually(lambda: database["raw_pages"].estimated_document_count() > 30, 60)
        first.stop()
        assert first.exit_code == 0, first.complaints(60)
        with Redis.from_url(environ["REDIS_URL"]) as client:
            status = Controls(client, Keys.of("shop"), "the tests' Redis").status()
        assert status.queued
        assert status.leased == 0
        assert not status.workers
        assert status.unbalanced == 0
        ended(worker("shop", *arguments))
        stored = {canonical_url(page["url"]) for page in database["raw_pages"].find({}, {"url": 1})}
        assert stored == expected_pages(site.config)


@pytest.fixture
def docs() -> Iterator[str]:
    if not DOCS.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{DOCS} is missing: install python3-doc")
        pytest.skip(f"{DOCS} is missing (Debian's python3-doc)")
    handler = partial(_Quiet, directory=str(DOCS))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join()


def test_two_workers_store_real_documentation(
    docs: str, worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    """The pages of python3-doc: those that an independent walk over the files reaches, each once."""
    workers = [worker("site", "-a", f"url={docs}") for _ in range(2)]
    ended(*workers)
    with _database(environ) as database:
        stored = [page["url"] for page in database["raw_pages"].find({}, {"url": 1})]
        titled = database["pages"].count_documents({"title": {"$ne": None}})
    reachable = _walk(docs)
    assert len(reachable) > 500
    assert sorted(stored) == sorted(reachable)
    assert titled > 500
    assert all(process.stat("storage/pages_stored") for process in workers), "one worker did all of the work"


def test_the_demo_ends_well(environ: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.demo", "--products", "150", "--data", str(tmp_path / "demo")]
    demo = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "exactly these" in demo.stdout
    assert (tmp_path / "demo" / "products.jsonl").read_text().count("\n") >= 150


class _Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"a", "area"}:
            self.found += [value for name, value in attrs if name == "href" and value]


def _walk(start: str) -> set[str]:
    """Return what can be reached from *start*, by a walk over the files that shares no code with the crawler."""
    origin = start.rpartition("/")[0] + "/"
    reached, waiting = {start}, deque([start])
    while waiting:
        url = waiting.popleft()
        if not url.endswith((".html", "/")):
            continue
        links = _Links()
        links.feed(_file(url, origin).read_text(encoding="utf-8", errors="replace"))
        for href in links.found:
            target = urldefrag(urljoin(url, href.strip())).url
            extension = urlsplit(target).path.rpartition(".")[2].lower()
            new = target.startswith(origin) and extension not in IGNORED_EXTENSIONS and target not in reached
            if new and _file(target, origin).is_file():
                reached.add(target)
                waiting.append(target)
    return reached


def _file(url: str, origin: str) -> Path:
    path = DOCS / unquote(urlsplit(url.removeprefix(origin)).path)
    return path / "index.html" if path.is_dir() else path


def _database(environ: dict[str, str]) -> Any:
    class Open:
        def __enter__(self) -> Any:
            self.client: MongoClient[dict[str, Any]] = MongoClient(environ["MONGO_URI"])
            return self.client[environ["MONGO_DATABASE"]]

        def __exit__(self, *exc_info: object) -> None:
            self.client.close()

    return Open()


def _assert_complete(environ: dict[str, str], spider: str) -> None:
    with Redis.from_url(environ["REDIS_URL"]) as client:
        status = Controls(client, Keys.of(spider), "the tests' Redis").status()
    assert status.state == "complete"
    assert status.is_complete
    assert status.unbalanced == 0
    assert not status.workers
