"""Pages that fail for good are set aside with the reason, and can be tried again."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from bench.demo.worker import WorkerProcess
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys

Start = Callable[..., WorkerProcess]


@pytest.fixture
def flaky() -> Iterator[Any]:
    """Give a site that answers 500 until `healthy` is set; it counts what it was asked."""

    class Flaky(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        healthy = threading.Event()
        asked: list[str] = []  # noqa: RUF012 - of this class alone
        origin: str

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

        def do_GET(self) -> None:
            status = 404 if self.path == "/robots.txt" else 200 if self.healthy.is_set() else 500
            self.asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky) as server:
        Flaky.origin = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Flaky
        finally:
            server.shutdown()
            thread.join()


def _page(seed: str) -> str:
    found = re.search(r"--http://[^/]*/(\w+)", seed)
    assert found
    return found[1]


def test_a_page_that_failed_can_be_tried_again(
    flaky: Any, worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    """Cases L4, L5, L11: bounded attempts, then set aside; retried when the server is healthy; the books balance."""
    with Redis.from_url(environ["REDIS_URL"]) as client:
        controls = Controls(client, Keys.of("site"), "the tests' Redis")
        client.rpush("site:start_urls", f"{flaky.origin}/page", "http://127.0.0.1:1/nobody")
        ended(worker("site", "-s", "RETRY_TIMES=2"))
        assert flaky.asked.count("/page") == 3
        dead = {_page(seed.seed): seed for seed in controls.dead()}
        assert dead["page"].reason == "given up: the server answered 500"
        assert dead["nobody"].reason.startswith("given up: ")
        status = controls.status()
        assert (status.dead, status.unbalanced) == (2, 0)

        flaky.healthy.set()
        assert controls.revive([dead["page"].number], retry=True) == 1
        ended(worker("site", "-s", "RETRY_TIMES=2"))
        assert flaky.asked.count("/page") == 4
        status = controls.status()
        assert (status.dead, status.unbalanced, status.queued) == (1, 0, 0)
