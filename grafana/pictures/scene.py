"""A crawl of some minutes in which much happens, so that the dashboards have something to show."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import EmbeddedMongo, EmbeddedRedis
from bench.servers.process import free_port
from bench.servers.prometheus import EmbeddedPrometheus, EmbeddedRedisExporter, deployed_config
from bench.site import SiteConfig, SiteProcess

SPIDER = "shop"
SCRAPE_INTERVAL_S = 3

#: Some sites that fail now and then, one of which turns the crawler away for a while; all answer like real ones: late.
SITE = SiteConfig(
    port=0,
    products=40_000,
    host_names=tuple(f"127.0.0.{n}" for n in range(1, 9)),
    failing_share=0.03,
    slow_share=1.0,
    slow_s=0.15,
    throttled_host="127.0.0.5",
    throttled_requests=120,
)
SETTINGS = {
    "CLOSE_WHEN_COMPLETE": "false",
    "CONCURRENT_REQUESTS": "6",
    "DEDUP_CAPACITY": "60000",
    "FRONTIER_LEASE_S": "15",
    "METRICS_HOST": "127.0.0.1",
}
SMALL_CACHE = {"storage": {"wiredTiger": {"engineConfig": {"cacheSizeGB": 0.25}}}}


class Scene:
    """Hold the servers, the workers and who watches them; what happens to them is in `STORY`."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._targets = folder / "workers.json"
        self._workers: dict[str, WorkerProcess] = {}
        redis = stack.enter_context(EmbeddedRedis(config_file=ROOT / "redis.conf", options={"maxmemory": "64mb"}))
        self.mongo = stack.enter_context(
            EmbeddedMongo(config_file=ROOT / "mongod.conf", options=SMALL_CACHE, replica_set="rs0")
        )
        self.site = stack.enter_context(SiteProcess(SITE))
        exporter_port = free_port()
        addresses = {"REDIS_URL": redis.url, "MONGO_URI": self.mongo.url, "EXPORTER_PORT": str(exporter_port)}
        self._environ = os.environ | SETTINGS | addresses
        stack.enter_context(self._running("exporter", "-m", "exporter"))
        redis_exporter = stack.enter_context(EmbeddedRedisExporter(redis.url))
        self._tell_prometheus()
        own_port = free_port()
        targets = {
            "worker": {"file_sd_configs": [{"files": [str(self._targets)]}]},
            "exporter": _static(exporter_port),
            "redis": _static(redis_exporter.port),
            "prometheus": _static(own_port),
        }
        config = deployed_config(targets, SCRAPE_INTERVAL_S)
        self.prometheus = stack.enter_context(EmbeddedPrometheus(config, port=own_port))

    def scale(self, workers: int) -> None:
        """Start workers until there are so many."""
        while len(self._workers) < workers:
            port = free_port()
            name = f"worker-{port}"
            environ = self._environ | {"METRICS_PORT": str(port), "STORE_SPOOL_DIR": str(self._folder / name)}
            arguments = ("-a", f"allowed_domains={','.join(SITE.host_names)}")
            worker = WorkerProcess(name, SPIDER, arguments, environ, self._folder / f"{name}.log")
            self._stack.callback(worker.stop)
            self._workers[f"127.0.0.1:{port}"] = worker
        self._tell_prometheus()

    def kill_a_worker(self) -> None:
        """End one as a power failure would."""
        self._workers.popitem()[1].kill()
        self._tell_prometheus()

    def seed(self) -> None:
        """Put in the address from which the whole site can be reached."""
        self._command("seed", SPIDER, self.site.config.start_url)

    def slow_down(self, host: str) -> None:
        """Give one host a delay, as somebody does whom it turns away."""
        self._command("frontier", "delay", SPIDER, host, "0.3")

    def _command(self, *arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "scrapy", *arguments], env=self._environ, cwd=ROOT, check=True)

    @contextmanager
    def _running(self, name: str, *arguments: str) -> Iterator[None]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments], env=self._environ, cwd=ROOT, stdout=log, stderr=log
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def _tell_prometheus(self) -> None:
        """Say which workers there are, as DNS does in the deployment."""
        written = self._targets.with_suffix(".new")
        written.write_text(json.dumps([{"targets": list(self._workers)}]))
        written.rename(self._targets)


def _static(port: int) -> Mapping[str, object]:
    return {"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}


#: What happens, and at which second.
STORY: Sequence[tuple[int, str, Callable[[Scene], object]]] = (
    (0, "two workers", lambda scene: scene.scale(2)),
    (15, "a start URL", Scene.seed),
    (60, "a host turns the crawler away, and is given a delay", lambda scene: scene.slow_down(SITE.throttled_host)),
    (110, "two workers more", lambda scene: scene.scale(4)),
    (190, "a worker is killed", Scene.kill_a_worker),
    (230, "MongoDB is away", lambda scene: scene.mongo.stop()),
    (265, "MongoDB is back", lambda scene: scene.mongo.start()),
    (350, "the end", lambda _: None),
)


def play(scene: Scene) -> float:
    """Have it all happen; give the time at which it began, in seconds since 1970."""
    began_s = time.time()
    for second, what, happens in STORY:
        time.sleep(max(0.0, began_s + second - time.time()))
        print(f"{second:4} s: {what}", flush=True)
        happens(scene)
    return began_s
