"""A worker's own metrics, heartbeat and watchdog, under Scrapy's own scheduler: no server is needed for them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from crawler import health
from crawler.heartbeat import EXIT_STALLED

ROOT = Path(__file__).parents[2]

SPIDER = """
import os, re, time, urllib.request
from scrapy import Request, Spider
from scrapy.exceptions import DropItem

class Drop:
    def process_item(self, item):
        if item["url"].endswith("/3"):
            raise DropItem("the third")
        return item

class Probe(Spider):
    name = "probe"
    custom_settings = {
        "EXTENSIONS": {"crawler.metrics.Metrics": 0, "crawler.heartbeat.Heartbeat": 0},
        "ITEM_PIPELINES": {Drop: 0},
        "RETRY_TIMES": 1,
    }
    async def start(self):
        for path in self.paths.split():
            yield Request(f"{self.base}/{path}")
        if hasattr(self, "refused"):
            yield Request(self.refused)
    def parse(self, response):
        yield {"url": response.url}
        if hasattr(self, "beat"):
            print("beat:", os.path.exists(self.beat))
        if response.url.endswith("/fault"):
            raise ValueError("a fault")
        if response.url.endswith("/block"):
            time.sleep(0.6)
        if response.url.endswith("/hang"):
            time.sleep(60)
        if response.url.endswith("/backtrack"):
            re.match("(a+)+$", "a" * 60 + "b")
    def closed(self, reason):
        if hasattr(self, "out"):
            [metrics] = [e for e in self.crawler.extensions.middlewares if type(e).__name__ == "Metrics"]
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
                open(self.out, "wb").write(answer.read())
"""


class Site(BaseHTTPRequestHandler):
    failed: set[str] = set()  # noqa: RUF012 - what all requests share

    def do_GET(self) -> None:
        status = 404 if self.path == "/missing" else 200
        if self.path == "/once" and self.path not in self.failed:
            self.failed.add(self.path)
            status = 503
        self.send_response(status)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def base() -> Iterator[str]:
    Site.failed.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def crawl(
    folder: Path, base: str, paths: str, environ: dict[str, str], **arguments: str
) -> subprocess.CompletedProcess[str]:
    spider = folder / "probe.py"
    spider.write_text(SPIDER)
    given = [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", spider, "-a", f"base={base}", "-a", f"paths={paths}", *given],
        env=os.environ | {"PYTHONPATH": str(ROOT), "METRICS_HOST": "127.0.0.1"} | environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def metrics_of(folder: Path, base: str, paths: str, **arguments: str) -> dict[str, float]:
    """Crawl, and give the metrics as they were at the end, by name and values of the labels."""
    out = folder / "metrics"
    done = crawl(folder, base, paths, {"METRICS_PORT": "0"}, out=str(out), **arguments)
    assert done.returncode == 0, done.stderr
    found = {}
    for family in text_string_to_metric_families(out.read_text()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("spider", "probe") == "probe"
            found[" ".join([sample.name, *sorted(labels.values())])] = sample.value
    return found


def test_a_worker_counts_what_it_does(tmp_path: Path, base: str) -> None:
    refused = "http://127.0.0.1:1/"
    found = metrics_of(tmp_path, base, "1 2 3 missing once fault", refused=refused)
    assert found["crawler_requests_total"] == 6 + 1 + 2  # one is sent again for its 503, one as nobody is there
    assert found["crawler_responses_total 200"] == 5
    assert found["crawler_responses_total 404"] == 1
    assert found["crawler_responses_total 503"] == 1
    assert found["crawler_download_errors_total refused"] == 2
    assert found["crawler_download_errors_total timeout"] == 0
    assert found["crawler_pages_total"] == 6
    assert found["crawler_retries_total"] == 2
    assert found["crawler_retries_exhausted_total"] == 1
    assert found["crawler_items_scraped_total"] == 4
    assert found["crawler_items_dropped_total"] == 1
    assert found["crawler_spider_exceptions_total"] == 1
    assert found["crawler_log_messages_total ERROR"] >= 1
    assert found["crawler_response_bytes_total"] > 7 * 5
    assert found["crawler_download_latency_seconds_count"] == 7
    assert found["crawler_requests_in_flight"] == 0
    assert found["crawler_concurrency_limit"] == 16
    assert 0 < time.time() - found["crawler_last_response_timestamp_seconds"] < 100
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["crawler_host_requests_total 127.0.0.1"] == 9
    assert found["crawler_host_failed_total 127.0.0.1"] == 3  # the 503, and nobody there twice
    assert found["crawler_host_refused_total 127.0.0.1"] == 1
    assert found["crawler_host_download_latency_seconds_count 127.0.0.1"] == 7
    assert found["crawler_host_requests_total other"] == 0


def test_known_labels_are_there_from_the_start(tmp_path: Path, base: str) -> None:
    found = metrics_of(tmp_path, base, "")
    assert found["crawler_responses_total 429"] == 0
    assert found["crawler_download_errors_total dns"] == 0
    assert found["crawler_log_messages_total CRITICAL"] == 0
    assert found["crawler_last_response_timestamp_seconds"] == 0


def test_what_blocks_the_event_loop_shows(tmp_path: Path, base: str) -> None:
    """R6."""
    found = metrics_of(tmp_path, base, "block")
    beyond = found["crawler_event_loop_lag_seconds_count"] - found["crawler_event_loop_lag_seconds_bucket 0.25"]
    assert beyond >= 1


def test_a_port_in_use_stops_the_start(tmp_path: Path, base: str) -> None:
    taken = base.rpartition(":")[2]
    done = crawl(tmp_path, base, "1", {"METRICS_PORT": taken})
    assert done.returncode == 1
    assert f"METRICS_PORT: no port to listen on (127.0.0.1:{taken}: Address already in use)" in done.stderr


def test_without_a_port_there_is_no_endpoint(tmp_path: Path, base: str) -> None:
    done = crawl(tmp_path, base, "1", {"METRICS_PORT": "off"})
    assert done.returncode == 0
    assert "Metrics at" not in done.stderr


# -- heartbeat and watchdog


def test_the_heartbeat_is_there_while_the_worker_lives_and_then_gone(tmp_path: Path, base: str) -> None:
    beat = tmp_path / "beat"
    done = crawl(tmp_path, base, "1", {"HEARTBEAT_FILE": str(beat)}, beat=str(beat))
    assert done.returncode == 0, done.stderr
    assert "beat: True" in done.stdout
    assert not beat.exists()


def test_a_heartbeat_that_cant_be_written_stops_the_start(tmp_path: Path, base: str) -> None:
    done = crawl(tmp_path, base, "1", {"HEARTBEAT_FILE": str(tmp_path / "no" / "beat")})
    assert done.returncode == 1
    assert "HEARTBEAT_FILE=" in done.stderr


def test_a_hung_event_loop_ends_the_process_and_says_where(tmp_path: Path, base: str) -> None:
    done = crawl(tmp_path, base, "hang", {"HEARTBEAT_FILE": str(tmp_path / "beat"), "WATCHDOG_S": "2"})
    assert done.returncode == EXIT_STALLED
    assert "The event loop has stood still for 2 s (WATCHDOG_S)" in done.stderr
    assert "probe.py" in done.stderr


def test_even_one_that_holds_the_interpreter(tmp_path: Path, base: str) -> None:
    """No thread of Python runs while a regular expression runs away."""
    done = crawl(tmp_path, base, "backtrack", {"HEARTBEAT_FILE": str(tmp_path / "beat"), "WATCHDOG_S": "2"})
    assert done.returncode == 1
    assert "Timeout (0:00:07)!" in done.stderr
    assert "probe.py" in done.stderr


@pytest.mark.parametrize(
    ("age_s", "said"), [(0, None), (14, None), (60, "the event loop has stood still for 60 s"), (None, "no heartbeat")]
)
def test_health_is_the_heartbeats_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: float | None, said: str | None
) -> None:
    beat = tmp_path / "beat"
    monkeypatch.setenv("HEARTBEAT_FILE", str(beat))
    if age_s is not None:
        beat.touch()
        os.utime(beat, (time.time() - age_s, time.time() - age_s))
    answer = health.main()
    assert answer is None if said is None else said in str(answer)


def test_health_without_a_heartbeat_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEARTBEAT_FILE", raising=False)
    assert "HEARTBEAT_FILE is not set" in str(health.main())
