"""Spiders and projects of other times and places: what is no longer heard is told, and neighbours are told apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from pymongo import MongoClient
from redis import Redis

from bench.demo.worker import ROOT, WorkerProcess
from tests.integration.cases.pages import Pages
from tests.integration.cases.spiders import PROJECT

Start = Callable[..., WorkerProcess]
Eventually = Callable[..., None]
Ended = Callable[..., None]

#: Scrapy's warnings of what it is going to remove become errors; `-W` can't name a class that is not loaded yet.
STRICT = """
import sys, warnings
from scrapy.exceptions import ScrapyDeprecationWarning
warnings.simplefilter("error", ScrapyDeprecationWarning)
{first}
from scrapy.cmdline import execute
execute(sys.argv)
"""


#: A scheduler that is built in a way that is going to be removed.
DEPRECATED = """
import crawler.scheduler
crawler.scheduler.Scheduler.from_crawler = lambda _: warnings.warn("old", ScrapyDeprecationWarning)
"""


def crawl_strictly(environ: dict[str, str], *arguments: str, first: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STRICT.format(first=first), "crawl", *PROJECT, *arguments]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_nothing_that_scrapy_deprecates_is_used(
    pages: Pages, environ: dict[str, str], client: Redis, mongo_db: str
) -> None:
    """Case V4: a whole crawl, with storage, metrics and robots.txt, under warnings that are errors."""
    pages.links = {"/": ["/a", "/b"]}
    client.rpush("site:start_urls", f"{pages.origin}/", "not-a-url")
    environ |= {"STORAGE": "true", "METRICS_PORT": "0", "METRICS_HOST": "127.0.0.1", "ROBOTSTXT_OBEY": "true"}
    done = crawl_strictly(environ, "site")
    assert done.returncode == 0, done.stderr
    assert "Deprecat" not in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert set(pages.paths) == {"/robots.txt", "/", "/a", "/b"}
    with MongoClient[dict[str, Any]](environ["MONGO_URI"]) as mongo:
        assert mongo[mongo_db]["raw_pages"].count_documents({}) == 3


def test_that_crawl_would_fail_if_there_were_a_warning(environ: dict[str, str]) -> None:
    """Case V4: the warnings of the test before really are errors."""
    done = crawl_strictly(environ, "site", first=DEPRECATED)
    assert "ScrapyDeprecationWarning: old" in done.stderr


def test_a_spider_that_begins_in_the_old_way_is_told(worker: Start, eventually: Eventually) -> None:
    """Case V2: Scrapy no longer calls start_requests(); a spider that has nothing else would silently crawl nothing."""
    process = worker("old")
    eventually(lambda: process.exit_code is not None, 60)
    assert process.exit_code == 1
    log = process.log.read_text()
    assert "spider 'old': start_requests() is never called by this version of Scrapy" in log
    assert "async def start(self)" in log
    assert "Traceback" not in log


def test_two_projects_with_one_spider_name(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Case K7: the second is refused, until it has a namespace of its own."""
    client.rpush("follow:start_urls", f"{pages.origin}/ours")
    ours = worker("follow", CLOSE_WHEN_COMPLETE="false")
    eventually(lambda: pages.paths == ["/ours"], 60)

    client.rpush("theirs", f"{pages.origin}/theirs")
    theirs = ("follow", "-s", "BOT_NAME=theirs")
    refused = worker(*theirs, START_URLS_KEY="theirs")
    eventually(lambda: refused.exit_code is not None, 60)
    assert refused.exit_code == 1
    assert "FRONTIER_NAMESPACE" in refused.log.read_text()
    assert pages.paths == ["/ours"]

    ended(worker(*theirs, START_URLS_KEY="theirs", FRONTIER_NAMESPACE="theirs"))
    assert pages.paths == ["/ours", "/theirs"]
    assert ours.exit_code is None
