"""A project that stays with scrapy-redis's own scheduler and takes the queue and the filter alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from redis import Redis

from bench.site import SiteConfig, SiteProcess, canonical_url, expected_pages

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240

SPIDER = """
import scrapy


class PagesSpider(scrapy.Spider):
    name = "pages"
    custom_settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_PERSIST": True,
        "SCHEDULER_IDLE_BEFORE_CLOSE": 30,
        "DUPEFILTER_CLASS": "crawler.dupefilter.BloomDupeFilter",
        "ROBOTSTXT_OBEY": True,
        "DEDUP_CAPACITY": 100_000,
    }

    def __init__(self, hosts, **arguments):
        super().__init__(**arguments)
        self.allowed_domains = hosts.split(",")
        self.start_urls = [self.url]

    def parse(self, response, sku=None):
        yield {"url": response.url}
        yield response.follow("/never", callback=lambda response: None)
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, callback=self.parse, cb_kwargs={"sku": (1, b"2")})
"""


@pytest.mark.parametrize("kind", ["FifoQueue", "LifoQueue", "PriorityQueue"])
def test_two_workers_of_scrapy_rediss_scheduler_finish_a_crawl(redis_url: str, tmp_path: Path, kind: str) -> None:
    """Cases S1, I4, D8, D9: every page once, though each page yields a callback that can't be queued."""
    (tmp_path / "pages.py").write_text(SPIDER)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    with SiteProcess(SiteConfig(port=0, products=60)) as site:
        command = [sys.executable, "-m", "scrapy", "runspider", "pages.py"]
        command += ["-a", f"url={site.config.start_url}", "-a", f"hosts={','.join(site.config.host_names)}"]
        command += ["-s", f"REDIS_URL={redis_url}", "-s", f"SCHEDULER_QUEUE_CLASS=crawler.queue.{kind}"]
        logs = [tmp_path / f"{number}.log" for number in range(2)]
        workers = [
            subprocess.Popen([*command, "-O", f"{log.stem}.jsonl", "--logfile", log.name], cwd=tmp_path, env=environ)
            for log in logs
        ]
        try:
            assert [worker.wait(TIMEOUT_S) for worker in workers] == [0, 0]
        finally:
            for worker in workers:
                worker.kill()
        expected = expected_pages(site.config)
    pages = [
        canonical_url(json.loads(line)["url"])
        for log in logs
        for line in log.with_suffix(".jsonl").read_text().splitlines()
    ]
    assert set(pages) == expected
    start_page = canonical_url(site.config.start_url)  # which both ask for first, unfiltered
    assert {url for url, count in Counter(pages).items() if count > 1} <= {start_page}
    text = "".join(log.read_text() for log in logs)
    assert "callback PagesSpider.parse.<locals>.<lambda> is no method of the spider 'pages'" in text
    assert "'scheduler/refused/redis'" in text
    assert "Traceback" not in text
    with Redis.from_url(redis_url) as client:
        assert {key.partition(b":")[2].partition(b":")[0] for key in client.scan_iter()} == {b"dupefilter"}
