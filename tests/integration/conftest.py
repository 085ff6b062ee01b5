"""Whole crawls: workers in processes of their own, against real servers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.demo.worker import ROOT, WorkerProcess

#: No crawl of the tests takes longer, seconds.
CRAWL_TIMEOUT_S = 240


@pytest.fixture
def environ(redis_url: str, mongo_uri: str, mongo_db: str) -> dict[str, str]:
    """Give the environment of a worker on the tests' servers."""
    names = ("PATH", "HOME", "LANG", "SYSTEMROOT")
    environ = {name: os.environ[name] for name in names if name in os.environ}
    environ |= {"REDIS_URL": redis_url, "MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db}
    environ["STORE_CONNECT_S"] = "5"
    return environ


@pytest.fixture
def worker(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Give the function that starts `scrapy crawl SPIDER ARGUMENTS…`, with settings as keywords."""
    subprocess.run([sys.executable, "-m", "crawler.storage.setup"], env=environ, cwd=ROOT, check=True)
    with ExitStack() as stack:
        count = 0

        def start(spider: str, *arguments: str, **settings: str) -> WorkerProcess:
            nonlocal count
            count += 1
            log = tmp_path / f"worker-{count}.log"
            process = WorkerProcess(f"worker {count}", spider, arguments, environ | settings, log)
            stack.callback(process.stop)
            return process

        yield start


@pytest.fixture
def ended(eventually: Callable[..., None]) -> Callable[..., None]:
    """Give the function that waits until workers have ended, all with exit code 0."""

    def wait(*workers: WorkerProcess) -> None:
        eventually(lambda: all(worker.exit_code is not None for worker in workers), CRAWL_TIMEOUT_S)
        for worker in workers:
            assert worker.exit_code == 0, worker.complaints(60)

    return wait
