"""Crawls whose MongoDB is away: they go on, and whatever happens to their workers, all is stored once in the end."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pymongo import MongoClient
from redis import Redis

from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import EmbeddedMongo
from bench.servers.process import free_port
from bench.site import SiteConfig, SiteProcess, canonical_url, expected_pages, expected_products
from crawler.frontier.controls import Controls
from crawler.frontier.keys import SPOOLS, Keys
from crawler.frontier.status import Status

Start = Callable[..., WorkerProcess]


@pytest.fixture
def own_mongo(mongo_server: EmbeddedMongo) -> Iterator[EmbeddedMongo]:
    """Give a server that a test may kill."""
    with EmbeddedMongo(mongo_server.program, replica_set="rs0") as server:
        yield server


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def environ(environ: dict[str, str], own_mongo: EmbeddedMongo, spool: Path) -> dict[str, str]:
    """Give the environment of a worker with a spool, whose buffer alone would not last for long."""
    return environ | {
        "MONGO_URI": own_mongo.url,
        "STORE_SPOOL_DIR": str(spool),
        "STORE_BUFFER_BYTES": "500000",
        "STORE_FLUSH_S": "0.2",
        "STORE_CONNECT_S": "1",
        "STORE_CLOSE_S": "60",
        "FRONTIER_LEASE_S": "2",
    }


@pytest.fixture(scope="module")
def site() -> Iterator[SiteProcess]:
    with SiteProcess(SiteConfig(port=0, products=400, failing_share=0.0)) as site:
        yield site


def arguments(site: SiteProcess) -> tuple[str, ...]:
    hosts = ",".join(site.config.host_names)
    return ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")


def status(environ: dict[str, str]) -> Status:
    with Redis.from_url(environ["REDIS_URL"]) as client:
        return Controls(client, Keys.of("shop"), "the tests' Redis").status()


def assert_all_is_stored_once(site: SiteProcess, environ: dict[str, str], spool: Path) -> None:
    with MongoClient[dict[str, Any]](environ["MONGO_URI"]) as client:
        database = client[environ["MONGO_DATABASE"]]
        pages = [canonical_url(page["url"]) for page in database["raw_pages"].find({}, {"url": 1})]
        skus = [product["sku"] for product in database["products"].find({}, {"sku": 1})]
    assert sorted(pages) == sorted(expected_pages(site.config))
    assert sorted(skus) == sorted(expected_products(site.config))
    assert not any(path.is_file() for path in spool.rglob("*"))
    now = status(environ)
    assert (now.unbalanced, now.queued, now.leased) == (0, 0, 0)
    with Redis.from_url(environ["REDIS_URL"]) as redis:
        assert not redis.exists(SPOOLS)


def told(environ: dict[str, str]) -> str:
    command = [sys.executable, "-m", "scrapy", "frontier", "status"]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_crawl_goes_on_while_mongod_is_dead(
    site: SiteProcess,
    worker: Start,
    ended: Callable[..., None],
    eventually: Callable[..., None],
    environ: dict[str, str],
    own_mongo: EmbeddedMongo,
    spool: Path,
) -> None:
    """Case M5: pages are acknowledged meanwhile, and anybody can see where their documents are."""
    port = free_port()
    crawling = worker("shop", *arguments(site), METRICS_HOST="127.0.0.1", METRICS_PORT=str(port))
    eventually(lambda: status(environ).done > 30, 60)
    own_mongo.kill()
    before = status(environ).done
    eventually(lambda: status(environ).done > before + 100, 60)
    eventually(lambda: "On workers' disks" in told(environ), 60)
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    found = {sample.name: sample.value for f in text_string_to_metric_families(text) for sample in f.samples}
    assert found["crawler_spool_documents"] > 100
    assert 0 < found["crawler_spool_bytes"] < found["crawler_spool_limit_bytes"] == 1 << 30
    assert found["crawler_spool_oldest_timestamp_seconds"] > found["process_start_time_seconds"]
    own_mongo.start()
    ended(crawling)
    assert crawling.stat("storage/replayed") == crawling.stat("storage/spooled") > 100
    assert_all_is_stored_once(site, environ, spool)


def test_what_a_killed_worker_left_is_brought_by_another(
    site: SiteProcess,
    worker: Start,
    ended: Callable[..., None],
    eventually: Callable[..., None],
    environ: dict[str, str],
    own_mongo: EmbeddedMongo,
    spool: Path,
) -> None:
    """Neither sees MongoDB when it starts, and the first leaves a note of its file that the second removes."""
    own_mongo.kill()
    victim = worker("shop", *arguments(site))
    eventually(lambda: status(environ).done > 100, 60)
    eventually(lambda: "On workers' disks" in told(environ), 60)
    victim.kill()
    assert any(path.suffix == ".spool" for path in spool.rglob("*"))
    heir = worker("shop", *arguments(site))
    eventually(lambda: "Took over" in heir.log.read_text(), 60)
    own_mongo.start()
    ended(heir)
    assert heir.stat("storage/replayed") >= heir.stat("storage/spooled") + 100
    assert_all_is_stored_once(site, environ, spool)


def test_a_crawl_that_ends_without_mongodb_leaves_its_documents_to_the_next_worker(
    site: SiteProcess,
    worker: Start,
    ended: Callable[..., None],
    environ: dict[str, str],
    own_mongo: EmbeddedMongo,
    spool: Path,
) -> None:
    own_mongo.kill()
    first = worker("shop", *arguments(site), STORE_CLOSE_S="1")
    ended(first)
    assert "documents wait in" in first.log.read_text()
    assert "On workers' disks" in told(environ)
    own_mongo.start()
    second = worker("shop", *arguments(site))
    ended(second)
    assert_all_is_stored_once(site, environ, spool)


def test_without_a_spool_a_worker_that_stops_gives_its_pages_back_at_once(
    site: SiteProcess,
    worker: Start,
    eventually: Callable[..., None],
    environ: dict[str, str],
    own_mongo: EmbeddedMongo,
) -> None:
    """It was MongoDB that did not take them, and Redis is not blamed for that."""
    crawling = worker("shop", *arguments(site), STORE_SPOOL_BYTES="0", STORE_CLOSE_S="1", STORE_BUFFER_BYTES="8000000")
    eventually(lambda: status(environ).done > 30, 60)
    own_mongo.kill()
    before = status(environ).pages
    eventually(lambda: status(environ).pages > before + 30, 60)
    crawling.stop()
    assert crawling.exit_code == 0
    log = crawling.log.read_text()
    assert "their pages will be fetched again" in log
    assert "Redis did not answer" not in log
    assert status(environ).leased == 0
    assert status(environ).unbalanced == 0
