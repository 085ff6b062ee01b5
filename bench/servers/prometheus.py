"""Prometheus and redis_exporter as child processes, for the tests and the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Unpack
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from bench.servers.process import EmbeddedServer, ProcessOptions
from bench.servers.programs import ServerMissingError, on_path

_DEPLOYED = Path(__file__).parents[2] / "prometheus"


def deployed_config(discovery: Mapping[str, Mapping[str, Any]], interval_s: int) -> dict[str, Any]:
    """Give the deployment's configuration with its rules, for this machine.

    Args:
        discovery: how the targets are found, by the name of their job.
        interval_s: how often they are scraped and the rules are evaluated.

    Raises:
        ValueError: the deployment has no such job.
    """
    config: dict[str, Any] = yaml.safe_load((_DEPLOYED / "prometheus.yml").read_text(encoding="utf-8"))
    if unknown := discovery.keys() - {job["job_name"] for job in config["scrape_configs"]}:
        raise ValueError(f"prometheus.yml has no job {', '.join(unknown)}")
    interval = f"{interval_s}s"
    config["global"] = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(_DEPLOYED / pattern) for pattern in config["rule_files"]]
    config["scrape_configs"] = [{"job_name": job, **found} for job, found in discovery.items()]
    config["alerting"] = {}
    return config


class EmbeddedPrometheus(EmbeddedServer):
    """Run a Prometheus.

    Args:
        config: what prometheus.yml would hold.
        **process: `data_dir`, `port` and the time limits, as `EmbeddedServer` describes them.

    Raises:
        ServerMissingError: this machine has none on PATH.
    """

    name: ClassVar[str] = "prometheus"

    def __init__(self, config: Mapping[str, Any], **process: Unpack[ProcessOptions]) -> None:
        self._program = _program("prometheus")
        self._config = config
        super().__init__(**process)

    @property
    def url(self) -> str:
        """Give the address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ready_line(self) -> str:
        """Give what the server logs last before it serves."""
        return "Server is ready to receive web requests"

    def ask(self, path: str, **parameters: str | float) -> Any:
        """Give the data of an answer of the HTTP API (`query`, `query_range`, `targets`, …).

        Raises urllib.error.HTTPError when Prometheus refuses.
        """
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:  # noqa: S310 - loopback
            return json.load(answer)["data"]

    def value(self, expr: str) -> float:
        """Give the one number that a query has now; raises LookupError when it has none or several."""
        samples = self.ask("query", query=expr)["result"]
        if len(samples) != 1:
            raise LookupError(f"{expr}: {len(samples)} samples")
        return float(samples[0]["value"][1])

    def _command(self) -> list[str]:
        written = self.data_dir / "prometheus.yml"
        written.write_text(json.dumps(self._config))  # JSON is YAML
        return [
            str(self._program),
            f"--config.file={written}",
            f"--storage.tsdb.path={self.data_dir / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]


class EmbeddedRedisExporter(EmbeddedServer):
    """Run a redis_exporter for the server at *redis_url*.

    Raises:
        ServerMissingError: this machine has none on PATH.
    """

    name: ClassVar[str] = "redis-exporter"

    def __init__(self, redis_url: str, **process: Unpack[ProcessOptions]) -> None:
        self._program = _program("prometheus-redis-exporter", "redis_exporter")
        self._redis_url = redis_url
        super().__init__(**process)

    @property
    def url(self) -> str:
        """Give the address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ready_line(self) -> str:
        """Give what the server logs last before it serves."""
        return "Providing metrics at"

    def _command(self) -> list[str]:
        return [str(self._program), "-redis.addr", self._redis_url, "-web.listen-address", f"127.0.0.1:{self.port}"]


def _program(*names: str) -> Path:
    for name in names:
        if path := on_path(name):
            return path
    raise ServerMissingError(f"no {' or '.join(names)} on PATH")
