"""Crawls of the field cases: spiders of their own, pages that wait when told, and no MongoDB where none is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis import Redis

from bench.demo.worker import WorkerProcess
from tests.integration.cases.pages import Pages
from tests.integration.cases.spiders import PROJECT


@pytest.fixture
def environ(environ: dict[str, str]) -> dict[str, str]:
    """Give the environment of a worker that stores nothing."""
    return environ | {"STORAGE": "false", "ROBOTSTXT_OBEY": "false", "FRONTIER_LEASE_S": "3"}


@pytest.fixture
def worker(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Give the function that starts `scrapy crawl SPIDER ARGUMENTS…`; its user agent is the worker's name."""
    workers: list[WorkerProcess] = []
    with ExitStack() as stack:

        def start(spider: str, *arguments: str, **settings: str) -> WorkerProcess:
            name = f"worker-{len(workers) + 1}"
            own = {"USER_AGENT": name} | settings
            process = WorkerProcess(name, spider, (*PROJECT, *arguments), environ | own, tmp_path / f"{name}.log")
            workers.append(process)
            stack.callback(process.stop)
            return process

        yield start


@pytest.fixture
def pages() -> Iterator[Pages]:
    """Give a web server whose pages have the links, and wait for what, the test says."""
    with Pages() as server:
        yield server


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    """Give a client of the workers' Redis."""
    with Redis.from_url(redis_url, socket_timeout=120) as client:
        yield client
