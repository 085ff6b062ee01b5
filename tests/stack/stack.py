"""Speak with a deployment: its containers, Redis, MongoDB and Prometheus."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

import pytest

from bench.site import SiteConfig

ROOT = Path(__file__).parents[2]
#: What one command may take; the longest is the first build of the image.
COMMAND_TIMEOUT_S = 240
#: Between two looks at something that changes: each look starts a process in a container.
POLL_S = 0.5

# What the environment says of proxies must not keep the tests from this machine's own ports.
_direct = build_opener(ProxyHandler({}))

#: The sample site as compose.yaml serves it.
SITE = SiteConfig(host_names=("site", "shop.site", "outlet.site"), port=80, products=1500)

# What every script for `Stack.mongo` begins with: a database `crawl`, as each account sees it.
_MONGO_CLIENTS = """
import json, os
from pathlib import Path
from pymongo import MongoClient
from pymongo.errors import OperationFailure
def secret(name): return Path("/run/secrets", name).read_text()
def client(user, password, source): return MongoClient(
    os.environ["MONGO_URI"], username=user, password=password, authSource=source, serverSelectionTimeoutMS=20_000)
system = client("__system", secret("mongo_keyfile"), "local")
worker = client("worker", secret("mongo_worker"), "admin")
exporter = client("exporter", secret("mongo_exporter"), "admin")
"""


class Stack:
    """Speak with one deployment; its environment says which."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.secrets_dir = Path(environment["SECRETS_DIR"])

    def run(self, *command: str, stdin: str = "", check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command in the project's folder; the test fails with its words when it fails, unless told otherwise."""
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **self.environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def make(self, target: str, *variables: str) -> str:
        """Run a target of the Makefile and give what it printed."""
        return self.run("make", "--no-print-directory", target, *variables).stdout

    def compose(self, *arguments: str, stdin: str = "") -> str:
        """Run Docker Compose and give what it printed."""
        return self.run("docker", "compose", *arguments, stdin=stdin).stdout

    def containers(self, service: str = "") -> list[dict[str, Any]]:
        """Give what the engine knows of the containers of a service, or of all, as `docker inspect` shows it."""
        ids = self.compose("ps", "--all", "--quiet", *([service] if service else [])).split()
        found: list[dict[str, Any]] = json.loads(self.run("docker", "inspect", *ids).stdout) if ids else []
        return found

    def redis(self, user: str, *command: str) -> str:
        """Say something to Redis as *user* ("" for nobody) and give its answer, an error's text too."""
        path = self.secrets_dir / f"redis_{user}"
        login = ["--user", user, "--pass", path.read_text() if path.exists() else "none"] if user else []
        answer = self.compose("exec", "-T", "redis", "redis-cli", "--no-auth-warning", *login, *command)
        return answer.removesuffix("\n")

    def mongo(self, script: str) -> Any:
        """Run Python that has `system`, `worker` and `exporter` as clients of MongoDB, and give the JSON it prints."""
        one_off = ("run", "--rm", "--no-deps", "-T", "mongo-setup", "python", "-")
        return json.loads(self.compose(*one_off, stdin=_MONGO_CLIENTS + script))

    def frontier(self, spider: str) -> dict[str, Any]:
        """Give what `scrapy frontier status` says of a spider, asked by a worker."""
        answer = self.compose("exec", "-T", "worker", "scrapy", "frontier", "status", spider, "--json")
        status: dict[str, Any] = json.loads(answer)[spider]
        return status

    def get(self, service: str, path: str) -> bytes:
        """Fetch a page of a service that is published on this machine."""
        url = f"http://{self.environment[f'{service.upper()}_LISTEN']}{path}"
        with _direct.open(url, timeout=COMMAND_TIMEOUT_S) as answer:
            body: bytes = answer.read()
        return body

    def prometheus(self, question: str) -> Any:
        """Ask Prometheus's HTTP API."""
        return json.loads(self.get("prometheus", f"/api/v1/{question}"))["data"]

    def by_instance(self, promql: str) -> dict[str, float]:
        """Give the value of a query for each instance."""
        found = self.prometheus(f"query?query={quote(promql)}")["result"]
        return {series["metric"]["instance"]: float(series["value"][1]) for series in found}

    def targets(self) -> dict[str, list[str]]:
        """Give what Prometheus scrapes: by job, the health of each target."""
        health: dict[str, list[str]] = {}
        for target in self.prometheus("targets?state=active")["activeTargets"]:
            health.setdefault(target["labels"]["job"], []).append(target["health"])
        return health


def until(condition: Callable[[], object], timeout_s: float = 60, shown: Callable[[], str] = str) -> None:
    """Wait until a condition holds; the test fails when it does not in time, with what is *shown* then."""
    deadline = time.monotonic() + timeout_s
    pause = Event()
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {timeout_s:g} s {shown()}".rstrip()
        pause.wait(POLL_S)
