"""Limits of a crawl with real workers: exactly as many pages, a queue that stays small, and a new run on demand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from pymongo import MongoClient
from redis import Redis

from bench.demo.worker import ROOT, WorkerProcess
from bench.site import SiteConfig, SiteProcess, canonical_url, expected_pages
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.frontier.status import Status

Start = Callable[..., WorkerProcess]


def crawled(environ: dict[str, str]) -> list[str]:
    with MongoClient[dict[str, str]](environ["MONGO_URI"]) as client:
        pages = client[environ["MONGO_DATABASE"]]["raw_pages"].find({}, {"url": 1})
        return [canonical_url(page["url"]) for page in pages]


def status_of(environ: dict[str, str], spider: str) -> Status:
    with Redis.from_url(environ["REDIS_URL"]) as client:
        return Controls(client, Keys.of(spider), "the tests' Redis").status()


def test_three_workers_fetch_exactly_as_many_pages_as_they_may(
    worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    with SiteProcess(SiteConfig(port=0, products=400)) as site:
        hosts = ",".join(site.config.host_names)
        arguments = (
            "-a",
            f"url={site.config.start_url}",
            "-a",
            f"allowed_domains={hosts}",
            "-s",
            "RETRY_ENABLED=false",
        )
        ended(*(worker("shop", *arguments, FRONTIER_MAX_PAGES="100") for _ in range(3)))
    status = status_of(environ, "shop")
    assert (status.pages, status.done + status.dead, status.state) == (100, 100, "complete")
    assert status.removed > 0
    assert status.unbalanced == 0
    pages = crawled(environ)
    assert len(pages) == len(set(pages)) <= 100
    assert set(pages) <= expected_pages(site.config)


def test_a_queue_that_is_always_full_loses_nothing_and_stops_nobody(
    worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    with SiteProcess(SiteConfig(port=0, products=60)) as site:
        hosts = ",".join(site.config.host_names)
        arguments = ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")
        ended(*(worker("shop", *arguments, FRONTIER_MAX_SEEDS="60") for _ in range(2)))
        expected = expected_pages(site.config)
    assert sorted(crawled(environ)) == sorted(expected)
    assert status_of(environ, "shop").unbalanced == 0


def test_start_urls_wait_while_the_queue_is_full(
    worker: Start, eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    def seed(*arguments: str) -> str:
        command = [sys.executable, "-m", "scrapy", "seed", "site", *arguments]
        limit = environ | {"FRONTIER_MAX_SEEDS": "600"}
        return subprocess.run(command, env=limit, cwd=ROOT, capture_output=True, text=True, check=False).stdout

    urls = [f"http://127.0.0.1:1/{number}" for number in range(1500)]
    assert seed(*urls).startswith("1024 accepted, 0 already seen, 0 refused; 476 left out: the queue is full")
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.rpush("site:start_urls", *urls)
        controls = Controls(client, Keys.of("site"), "the tests' Redis")
        # With a host that is blocked nothing drains.
        controls.block("127.0.0.1")
        process = worker("site", FRONTIER_MAX_SEEDS="600", CLOSE_WHEN_COMPLETE="false")
        # One batch is taken before the worker is told; then it asks again and again, and takes nothing.
        eventually(lambda: controls.status().parked == 1024 + 512, 60)
        asked = client.info("stats")["total_reads_processed"] + 200
        eventually(lambda: client.info("stats")["total_reads_processed"] > asked, 60)
        assert client.llen("site:start_urls") == 1500 - 512
        process.stop()
        assert process.exit_code == 0, process.complaints(60)
        assert controls.status().unbalanced == 0
    # A new run, in one step.
    said = seed("--fresh", *urls[:10])
    assert "10 accepted, 0 already seen" in said
    status = status_of(environ, "site")
    assert (status.queued, status.unbalanced) == (10, 0)


def test_o4_one_url_is_forgotten(environ: dict[str, str]) -> None:
    def run(*arguments: str, dedup: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "scrapy", *arguments]
        return subprocess.run(
            command, env=environ | {"DEDUP": dedup}, cwd=ROOT, capture_output=True, text=True, check=False
        )

    urls = ("http://127.0.0.1:1/a", "http://127.0.0.1:1/b")
    run("seed", "site", *urls, dedup="exact")
    done = run("frontier", "forget", "site", urls[0], "http://127.0.0.1:1/other", dedup="exact")
    assert done.stdout == "1 of 2 forgotten.\n", done.stderr
    assert run("seed", "site", *urls, dedup="exact").stdout.startswith("1 accepted, 1 already seen")
    assert run("frontier", "forget", "site", "http://127.0.0.1:1/other", dedup="exact").returncode == 1

    run("seed", "shop", *urls, dedup="bloom")
    refused = run("frontier", "forget", "shop", urls[0], dedup="bloom")
    assert refused.returncode == 2
    assert "can't forget one URL" in refused.stderr
    assert "Traceback" not in refused.stderr
