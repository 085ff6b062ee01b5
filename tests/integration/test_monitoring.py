"""A real Prometheus scrapes a real crawl: every name exists, every panel has data, and the figures are true."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pymongo import MongoClient
from redis import Redis
from redis.exceptions import ResponseError

from bench.servers import EmbeddedMongo, EmbeddedRedis, ServerMissingError
from bench.servers.process import free_port
from bench.servers.prometheus import EmbeddedPrometheus, EmbeddedRedisExporter, deployed_config
from bench.site import SiteConfig, SiteProcess, expected_pages
from crawler.config import Config
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.storage.maintenance import note_backup

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted(ROOT.glob("grafana/dashboards/*.json"))
SPIDER = "shop"
DATABASE = "monitored"

#: What the name of a metric or of a recorded series begins with.
NAME = re.compile(r"\b(?:(?:crawler|redis|process|prometheus)_[a-z0-9_]+|(?:spider|crawl):[a-z0-9_:]+)")

#: Panels that may be empty in a short crawl that is well, and why.
MAY_BE_EMPTY = {
    "Time to drain": "there is none while the queue grows, and a short crawl is over before it shrinks for long",
    "Full": "the crawl has no FRONTIER_MAX_SEEDS",
    "Pages of the crawl": "it has no FRONTIER_MAX_PAGES",
    "Bytes a queued seed": "it wants a hundred seeds in the queue, and a memory sample taken meanwhile",
}
#: Names that no scrape shows here, and why.
NOT_HERE = {
    "spider:crawler_frontier_drain:seconds": "there is none while the queue grows, and this crawl is short",
    "redis_exporter": "the program, not a metric",
}


@dataclass
class Scene:
    """Two workers that have completed a crawl and wait for more, and those who watch them."""

    redis_url: str
    mongo_uri: str
    prometheus: EmbeddedPrometheus
    #: Job -> addresses.
    endpoints: Mapping[str, Sequence[str]]
    pages: set[str]
    began_s: float

    def series(self, expr: str) -> list[dict[str, Any]]:
        """Give what a panel with this query shows of the whole crawl: a curve of nothing but NaN is none."""
        found: list[dict[str, Any]] = self.prometheus.ask(
            "query_range", query=expr, start=self.began_s, end=time.time(), step=1
        )["result"]
        return [curve for curve in found if any(value != "NaN" for _, value in curve["values"])]


class Child:
    """A process that says in its log where it serves its metrics, and that ends with the test."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, env=dict(environ), stdout=output, stderr=output, cwd=ROOT)

    @property
    def port(self) -> str | None:
        assert self.process.poll() is None, self.log.read_text()
        found = re.search(r"Metrics at http://127\.0\.0\.1:(\d+)/metrics", self.log.read_text())
        return found[1] if found else None

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def prometheus_config(endpoints: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Give the deployment's configuration, with addresses of this machine, and quicker."""
    targets = {job: {"static_configs": [{"targets": list(addresses)}]} for job, addresses in endpoints.items()}
    nobody = {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:1"]}]}]}
    return deployed_config(targets, 1) | {"alerting": nobody}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., None]) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("monitoring")
    try:
        with ExitStack() as stack:
            yield _play(stack, folder, eventually)
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def _play(stack: ExitStack, folder: Path, eventually: Callable[..., None]) -> Scene:
    redis = stack.enter_context(EmbeddedRedis(config_file=ROOT / "redis.conf", options={"maxmemory": "256mb"}))
    mongo = stack.enter_context(EmbeddedMongo(config_file=ROOT / "mongod.conf", replica_set="rs0"))
    site = stack.enter_context(SiteProcess(SiteConfig(port=0, products=150)))
    redis_exporter = stack.enter_context(EmbeddedRedisExporter(redis.url))
    environ = os.environ | {
        "REDIS_URL": redis.url,
        "MONGO_URI": mongo.url,
        "MONGO_DATABASE": DATABASE,
        "METRICS_HOST": "127.0.0.1",
        "METRICS_PORT": "0",
        "EXPORTER_PORT": "0",
        "CLOSE_WHEN_COMPLETE": "false",
        "STORE_SPOOL_DIR": str(folder / "spool"),
        "DEDUP_CAPACITY": "1000",
        "DOWNLOAD_DELAY": "0.05",  # paces the crawl, so that it lasts for several scrapes
    }
    # The series of the last backup is there from the first one on.
    note_backup(Config.from_environ(environ), "seedbed.archive.gz", 1)
    scrapy, hosts = [sys.executable, "-m", "scrapy"], ",".join(site.config.host_names)
    crawl = [*scrapy, "crawl", SPIDER, "-a", f"allowed_domains={hosts}"]
    workers = [Child(crawl, environ, folder / f"worker-{n}.log") for n in range(2)]
    exporter = Child([sys.executable, "-m", "exporter"], environ, folder / "exporter.log")
    for child in (*workers, exporter):
        stack.callback(child.end)
    eventually(lambda: all(child.port for child in (*workers, exporter)), 60)
    endpoints = {
        "worker": [f"127.0.0.1:{worker.port}" for worker in workers],
        "exporter": [f"127.0.0.1:{exporter.port}"],
        "redis": [f"127.0.0.1:{redis_exporter.port}"],
    }
    port = free_port()
    endpoints["prometheus"] = [f"127.0.0.1:{port}"]
    prometheus = stack.enter_context(EmbeddedPrometheus(prometheus_config(endpoints), port=port))
    scene = Scene(redis.url, mongo.url, prometheus, endpoints, expected_pages(site.config), time.time())
    eventually(lambda: _sees(scene, "count(up == 1)") == [5], 60)
    with Redis.from_url(redis.url) as client:
        # Else nothing is queued for long enough to be looked at.
        assert Controls(client, Keys(SPIDER), redis.url).pause()
        subprocess.run([*scrapy, "seed", SPIDER, site.config.start_url], env=environ, cwd=ROOT, check=True)
        eventually(lambda: _sees(scene, "crawler_frontier_oldest_seed_timestamp_seconds"), 60)
        assert Controls(client, Keys(SPIDER), redis.url).resume()
        with pytest.raises(ResponseError):  # else redis_exporter shows no errors at all
            client.execute_command("NONSENSE")
        controls = Controls(client, Keys(SPIDER), redis.url)
        eventually(lambda: controls.status().done > 50 and controls.status().is_complete, 180)
    # Everything has been scraped since the end, and the rules have run.
    eventually(lambda: _sees(scene, "min(min_over_time(crawler_frontier_complete[5s]))") == [1], 60)
    return scene


def _sees(scene: Scene, expr: str) -> list[float]:
    return [float(sample["value"][1]) for sample in scene.prometheus.ask("query", query=expr)["result"]]


def served_by(scene: Scene, job: str) -> bytes:
    with urlopen(f"http://{scene.endpoints[job][0]}/metrics", timeout=30) as answer:
        text: bytes = answer.read()
    return text


def panels_of(path: Path) -> Iterator[dict[str, Any]]:
    for panel in json.loads(path.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel


def filled_in(expr: str, spider: str) -> str:
    """Give a panel's query as Grafana would send it."""
    values = {"$__rate_interval": "10s", "$__range": "1m", "$spider": spider}
    for variable, value in values.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr, expr
    return expr


def test_every_target_is_up(scene: Scene) -> None:
    targets = scene.prometheus.ask("targets")["activeTargets"]
    assert {(target["labels"]["instance"], target["health"]) for target in targets} == {
        (address, "up") for addresses in scene.endpoints.values() for address in addresses
    }


def test_both_workers_took_part_and_prometheus_tells_them_apart(scene: Scene) -> None:
    shares = scene.prometheus.ask("query", query="sum by (instance) (crawler_pages_total) > 0")["result"]
    assert {share["metric"]["instance"] for share in shares} == set(scene.endpoints["worker"])


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_data_for_each_value_of_its_variables(scene: Scene, path: Path) -> None:
    empty = {
        panel["title"]: target["expr"]
        for panel in panels_of(path)
        for target in panel["targets"]
        for spider in (".+", SPIDER)
        if panel["title"] not in MAY_BE_EMPTY and not scene.series(filled_in(target["expr"], spider))
    }
    assert empty == {}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_spider_that_is_not_there_shows_nothing_of_another(scene: Scene, path: Path) -> None:
    for panel in panels_of(path):
        for target in panel["targets"]:
            if "$spider" in target["expr"]:
                found = scene.series(filled_in(target["expr"], "no-such-spider"))
                assert all(series["metric"] == {} for series in found), panel["title"]


@pytest.mark.parametrize(
    "paths",
    [
        DASHBOARDS,
        sorted(ROOT.glob("prometheus/rules/*.yml")),
        sorted(ROOT.glob("docs/runbooks/*.md")),
        [ROOT / "docs/metrics.md"],
    ],
    ids=["dashboards", "rules", "runbooks", "reference"],
)
def test_every_name_exists(scene: Scene, paths: Sequence[Path]) -> None:
    named = {name for path in paths for name in NAME.findall(path.read_text())}
    known = set(scene.prometheus.ask("label/__name__/values"))
    known |= {name.removesuffix("_bucket").removesuffix("_count") for name in known}
    assert len(named) > 20
    assert named - known - set(NOT_HERE) == set()


@pytest.mark.parametrize("job", ["worker", "exporter"])
def test_what_an_endpoint_serves_is_described(scene: Scene, job: str) -> None:
    described = set(NAME.findall((ROOT / "docs/metrics.md").read_text()))
    families = text_string_to_metric_families(served_by(scene, job).decode())
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert {name for name in names if name.startswith("crawler_")} - described == set()


def test_recorded_series_are_all_there(scene: Scene) -> None:
    rules = [rule for group in scene.prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    assert recorded - set(scene.prometheus.ask("label/__name__/values")) <= NOT_HERE.keys()


def test_a_crawl_that_is_well_calls_nobody(scene: Scene) -> None:
    firing = {series["metric"]["alertname"] for series in scene.series('ALERTS{alertstate="firing"}')}
    # There is no Alertmanager here.
    assert firing - {"PrometheusNotificationsFailing"} == {"Watchdog"}


def test_the_panels_say_what_redis_and_mongodb_say(scene: Scene) -> None:
    with Redis.from_url(scene.redis_url) as client:
        status = Controls(client, Keys(SPIDER), scene.redis_url).status()
    with MongoClient[dict[str, Any]](scene.mongo_uri) as mongo:
        stored = mongo[DATABASE]["raw_pages"].count_documents({})
        products = mongo[DATABASE]["products"].count_documents({})
    assert status.is_complete
    assert status.unbalanced == 0
    assert stored == len(scene.pages)
    value = scene.prometheus.value
    assert value("sum(crawler_frontier_accepted_total)") == status.accepted
    assert value("sum(crawler_frontier_done_total)") == status.done
    assert value("sum(crawler_frontier_filtered_total)") == status.filtered
    assert value("sum(crawler_frontier_queued)") == status.queued == 0
    assert value("sum(crawler_frontier_leased)") == status.leased == 0
    assert value("sum(crawler_leases_held)") == 0
    assert value("spider:crawler_frontier_unbalanced:sum") == 0
    assert value("sum(crawler_filter_inserted)") > 0
    assert value('crawler_mongo_documents{collection="raw_pages"}') == stored
    assert value('crawler_mongo_documents{collection="products"}') == products > 0
    assert value("sum(crawler_pages_stored_total)") >= stored
    assert value("sum(crawler_items_stored_total)") == value("sum(crawler_items_scraped_total)") >= products
    assert value("sum(crawler_store_buffer_documents)") == 0
    assert value('sum(crawler_workers{state="idle"})') == 2
    requests = value("sum(crawler_requests_total)")
    assert value("sum(crawler_host_requests_total)") == requests >= len(scene.pages)
    assert value("sum(crawler_host_download_latency_seconds_count)") == value("sum(crawler_responses_total)")
    assert value("sum(crawler_queue_wait_seconds_count)") > 0
    assert value("sum(crawler_store_flush_documents_sum)") >= stored + products
    assert value('sum(crawler_mongo_command_duration_seconds_count{operation="insert"})') > 0


@pytest.mark.parametrize("job", ["worker", "exporter"])
def test_promtool_finds_no_fault_with_the_metrics(scene: Scene, job: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        assert not os.environ.get("CI"), "promtool is missing"
        pytest.skip("no promtool on PATH")
    text = served_by(scene, job)
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
