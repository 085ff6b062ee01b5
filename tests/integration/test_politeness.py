"""A host gets its peace from all workers together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from bench.demo.worker import WorkerProcess
from bench.site import SiteConfig, SiteProcess, expected_pages

Start = Callable[..., WorkerProcess]

#: What a request's way through two processes may shift it by, seconds.
SLACK_S = 0.02


def _crawl(site: Any, worker: Start, ended: Callable[..., None], **settings: str) -> list[dict[str, Any]]:
    hosts = ",".join(site.config.host_names)
    arguments = ("-a", f"url={site.config.start_url}", "-a", f"allowed_domains={hosts}")
    ended(*[worker("shop", *arguments, **settings) for _ in range(3)])
    log: list[dict[str, Any]] = site.log()
    return log


def test_three_workers_keep_one_delay(worker: Start, ended: Callable[..., None]) -> None:
    """Case O6: DOWNLOAD_DELAY counts for the cluster, measured where the requests arrive."""
    config = SiteConfig(port=0, products=40, categories=6, log_size=10_000, slow_share=0.2, slow_s=0.3)
    with SiteProcess(config) as site:
        log = _crawl(site, worker, ended, DOWNLOAD_DELAY="0.2")
        expected = len(expected_pages(site.config))
    assert len({(entry["host"], entry["target"]) for entry in log if entry["status"] == 200}) >= expected
    for host in config.host_names:
        # robots.txt is asked for besides the queue.
        times = [e["monotonic_s"] for e in log if e["host"].split(":")[0] == host and e["target"] != "/robots.txt"]
        assert len(times) > 2
        assert min(later - earlier for earlier, later in pairwise(sorted(times))) >= 0.2 - SLACK_S


def test_retry_after_holds_back_all_workers(worker: Start, ended: Callable[..., None]) -> None:
    """A host that answers 429 with Retry-After is left alone for so long, by all."""
    config = SiteConfig(
        port=0, products=60, throttled_host="127.0.0.2", throttled_requests=1, retry_after_s=2, log_size=10_000
    )
    with SiteProcess(config) as site:
        log = _crawl(site, worker, ended)
    times = [e for e in log if e["host"].split(":")[0] == "127.0.0.2" and e["target"] != "/robots.txt"]
    refused = next(entry["monotonic_s"] for entry in times if entry["status"] == 429)
    # What was on its way when the answer came is not called back.
    early = [e for e in times if refused + 0.5 < e["monotonic_s"] < refused + 2 - SLACK_S]
    assert early == []
    assert any(entry["monotonic_s"] > refused + 2 - SLACK_S for entry in times)
