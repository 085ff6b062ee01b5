"""What real workers log: JSON on every line if so set, with its context, and a summary that agrees with the books."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.demo.worker import ROOT, WorkerProcess
from bench.site import SiteConfig, SiteProcess, expected_pages

Start = Callable[..., WorkerProcess]

PAGES = 40


@pytest.fixture
def site() -> Iterator[SiteProcess]:
    with SiteProcess(SiteConfig(port=0, products=PAGES)) as running:
        yield running


def arguments(site: SiteProcess) -> tuple[str, ...]:
    hosts = ",".join(site.config.host_names)
    return ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")


def objects_in(log: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in found)
    return found


def test_every_line_is_an_object_and_the_last_figures_are_right(
    worker: Start, ended: Callable[..., None], site: SiteProcess
) -> None:
    done = worker("shop", *arguments(site), LOG_JSON="true", LOG_LEVEL="DEBUG")
    ended(done)
    lines = objects_in(done.log)
    assert lines[0]["message"].startswith("Scrapy ")
    started = next(i for i, line in enumerate(lines) if line["message"] == "Spider opened")
    assert {line.get("spider") for line in lines[started:]} == {"shop"}
    [worker_name] = {line["worker"] for line in lines if "worker" in line}
    assert worker_name.count(":") == 2
    crawled = [
        line for line in lines if line["message"].startswith("Crawled (200)") and "robots.txt" not in line["url"]
    ]
    assert len(crawled) >= PAGES
    assert all(line["lease"].count(":") == 1 and line["url"].startswith("http://") for line in crawled)
    [summary] = [line["summary"] for line in lines if "summary" in line]
    pages = len(expected_pages(site.config))
    assert summary["worker"]["pages"] >= pages
    assert summary["worker"]["pages_stored"] >= pages
    assert summary["worker"]["items"] >= PAGES
    assert 0 < summary["worker"]["round_trips_per_page"] < 10
    assert set(summary["worker"]["limits"]) == {
        "downloads",
        "parsing",
        "redis",
        "mongodb",
        "waiting for seeds or hosts",
    }
    assert summary["crawl"]["accepted"] == summary["crawl"]["done"] + summary["crawl"]["dead"]
    assert summary["crawl"]["done"] >= pages


def test_text_tells_spider_and_worker_and_ends_with_a_table(
    worker: Start, ended: Callable[..., None], site: SiteProcess
) -> None:
    done = worker("shop", *arguments(site))
    ended(done)
    text = done.log.read_text()
    assert "[spider=shop worker=" in text
    assert "INFO: Crawl ended (finished): " in text
    assert "; the whole crawl: " in text
    assert "\nfigure" in text
    assert "\ncrawl accepted" in text


SPIDER = """
import asyncio, warnings
from scrapy import Request, Spider

class Faulty(Spider):
    name = "faulty"
    handle_httpstatus_list = [404]
    async def start(self):
        for n in range(5):
            yield Request(f"{self.base}?n={n}", cb_kwargs={"n": n})
    async def parse(self, response, n):
        await asyncio.sleep(0.05 * (5 - n))
        self.logger.warning("page %d", n)
        yield {"name": n}
        if n == 3:
            warnings.warn("beware")
        if n == 4:
            raise ValueError("two\\nlines")
"""


def test_what_a_callback_says_is_one_line_with_its_page(
    environ: dict[str, str], tmp_path: Path, site: SiteProcess
) -> None:
    spider = tmp_path / "faulty.py"
    spider.write_text(SPIDER)
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", spider, "-a", f"base={site.config.start_url}"],
        env=environ | {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "crawler.settings", "LOG_JSON": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    said = {line["message"]: line for line in lines if line["logger"] == "faulty"}
    assert {message: line["url"][-1] for message, line in said.items()} == {f"page {n}": str(n) for n in range(5)}
    assert len({line["lease"] for line in said.values()}) == 5
    [fault] = [line for line in lines if "exception" in line]
    assert (fault["level"], fault["url"][-1]) == ("ERROR", "4")
    assert fault["exception"].endswith("ValueError: two\nlines")
    [warning] = [line for line in lines if line["logger"] == "py.warnings"]
    assert "beware" in warning["message"]
    assert warning["url"].endswith("3")
    # Once the callbacks are done, nothing is about a page any more.
    assert not [line for line in lines[-3:] if "url" in line]


LEAF_SPIDER = """
import asyncio, logging
from scrapy import Request, Spider

class Said:
    def process_request(self, request):
        logging.getLogger("said").warning("asked for %s", str(request.url))

class Leaves(Spider):
    name = "leaves"
    custom_settings = {
        # Each page is begun by the end of the one before it.
        "CONCURRENT_REQUESTS": 1,
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1,
        "DOWNLOADER_MIDDLEWARES": {Said: 500},
        "HTTPERROR_ALLOW_ALL": True,
        "RETRY_ENABLED": False,
    }
    async def start(self):
        for n in range(4):
            yield Request(f"{self.base}?n={n}", errback=self.failed)
        yield Request("http://127.0.0.1:1/", errback=self.failed)
    async def parse(self, response):
        await asyncio.sleep(0.02)
        logging.getLogger("said").warning("parsed %s", str(response.url))
    def failed(self, failure):
        logging.getLogger("said").warning("failed %s", str(failure.request.url))
"""


def test_no_line_tells_the_page_before(environ: dict[str, str], tmp_path: Path, site: SiteProcess) -> None:
    spider = tmp_path / "leaves.py"
    spider.write_text(LEAF_SPIDER)
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", spider, "-a", f"base={site.config.start_url}"],
        env=environ
        | {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "crawler.settings", "LOG_JSON": "true"}
        | {"CRAWL_PRIVATE_HOSTS": "*", "STORE_FLUSH_S": "0.01", "LOG_LEVEL": "DEBUG"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    said = [
        (line["message"].rpartition(" ")[0], line["message"].rpartition(" ")[2], line.get("url"))
        for line in lines
        if line["logger"] == "said"
    ]
    assert [what for what, _, _ in said].count("asked for") >= 5
    assert {what for what, _, _ in said} == {"asked for", "parsed", "failed"}
    assert all(told == (None if what == "asked for" else about) for what, about, told in said), said
