"""What producers write into start keys is crawled, whatever the key's type; bad entries fall out alone."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from bench.demo.worker import WorkerProcess
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys

Start = Callable[..., WorkerProcess]


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answer anything with a page without links, and remember who asked for what."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, str, dict[str, str], bytes]]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/robots.txt":
            self.asked.append((self.command, self.path, dict(self.headers.items()), body))
        page = f"<title>{self.path}</title>".encode()
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_POST = do_GET  # noqa: N815 - the base class's name


@pytest.fixture
def recorder() -> Iterator[type[Recorder]]:
    class Own(Recorder):
        origin: str

    Own.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        Own.origin = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Own
        finally:
            server.shutdown()
            thread.join()


def _paths(recorder: Any) -> list[str]:
    return sorted(path for _, path, _, _ in recorder.asked)


def test_a_list_of_all_kinds_of_entries(
    recorder: Any, worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    """Cases L7, S8, S9, S11, S12, S13, S14, S20, S23."""
    at = recorder.origin
    entries = [
        f"{at}/plain",
        f"  {at}/spaces\r\n",
        f"parse--{at}/a--b",
        f'{{"url": "{at}/json?a=1&b=2", "headers": {{"X-Own": "1"}}, "cookies": {{"a": "b"}}}}',
        f'{{"url": "{at}/post", "method": "POST", "body": "x=1", "priority": 9}}',
        f'["{at}/array1", {{"url": "{at}/array2"}}]',
        "not-a-url",
        f"{{'url': '{at}/python-repr'}}",
        '{"url": 5}',
        f'{{"url": "{at}/unknown", "no_such_field": 1}}',
        f"no_such_callback--{at}/x",
        "null",
        f"{at}/last",
    ]
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.rpush("site:start_urls", *entries)
        ended(worker("site"))
        assert _paths(recorder) == sorted(
            ["/plain", "/spaces", "/a--b", "/json?a=1&b=2", "/post", "/array1", "/array2", "/last"]
        )
        assert not client.exists("site:start_urls", "{site:start_urls}:taken")
        controls = Controls(client, Keys.of("site"), "the tests' Redis")
        dead = list(controls.dead())
        assert controls.status().unbalanced == 0
    assert len(dead) == 6
    assert any("double quotes" in seed.reason for seed in dead)
    sent = {path: (method, headers, body) for method, path, headers, body in recorder.asked}
    assert sent["/json?a=1&b=2"][1]["X-Own"] == "1"
    assert sent["/json?a=1&b=2"][1]["Cookie"] == "a=b"
    assert sent["/post"][0] == "POST"
    assert sent["/post"][2] == b"x=1"


def test_a_set(recorder: Any, worker: Start, ended: Callable[..., None], environ: dict[str, str]) -> None:
    """Case K1: the key's type is whatever it is."""
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.sadd("site:start_urls", *(f"{recorder.origin}/{n}" for n in range(20)))
        ended(worker("site"))
    assert _paths(recorder) == sorted(f"/{n}" for n in range(20))


def test_a_sorted_set_gives_the_priority(
    recorder: Any, worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    """Cases K1, K4: the highest score first."""
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.zadd("site:start_urls", {f"{recorder.origin}/{n}": n for n in range(20)})
        ended(worker("site", "-s", "CONCURRENT_REQUESTS=1"))
    assert [path for _, path, _, _ in recorder.asked] == [f"/{n}" for n in range(19, -1, -1)]


def test_keys_are_drained_in_their_order(
    recorder: Any, worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    """Case K6."""
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.rpush("low", *(f"{recorder.origin}/low{n}" for n in range(5)))
        client.rpush("site:high", *(f"{recorder.origin}/high{n}" for n in range(5)))
        ended(worker("site", "-s", "CONCURRENT_REQUESTS=1", START_URLS_KEY="{spider}:high, low"))
    assert [path for _, path, _, _ in recorder.asked] == [f"/{key}{n}" for key in ("high", "low") for n in range(5)]


def test_an_idle_worker_picks_up_a_new_entry(
    recorder: Any, worker: Start, eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    """Cases V1, L17: as a service, a worker waits, and goes on."""
    with Redis.from_url(environ["REDIS_URL"]) as client:
        process = worker("site", CLOSE_WHEN_COMPLETE="false")
        eventually(lambda: client.zcard(Keys.of("site").workers), 30)
        for n in range(3):
            client.rpush("site:start_urls", f"{recorder.origin}/{n}")
            eventually(lambda n=n: f"/{n}" in _paths(recorder), 30)
    assert process.exit_code is None


def test_a_key_of_another_type_stops_the_start(
    worker: Start, eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    """Case K1: the key and what it must be are named, and the exit code is not 0."""
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.set("site:start_urls", "http://127.0.0.1:1/")
        process = worker("site")
        eventually(lambda: process.exit_code is not None, 60)
    assert process.exit_code == 1
    said = process.log.read_text()
    assert "site:start_urls holds a string; a list, a set or a sorted set is wanted" in said
    assert "Traceback" not in said


def test_private_hosts_are_not_fetched_unless_allowed(
    recorder: Any, worker: Start, ended: Callable[..., None], environ: dict[str, str]
) -> None:
    port = recorder.origin.rpartition(":")[2]
    with Redis.from_url(environ["REDIS_URL"]) as client:
        client.rpush("site:start_urls", f"{recorder.origin}/number", f"http://localhost:{port}/name")
        refusing = worker("site", "-s", "RETRY_ENABLED=false", CRAWL_PRIVATE_HOSTS="none")
        ended(refusing)
        assert _paths(recorder) == []
        assert "CRAWL_PRIVATE_HOSTS does not allow it" in refusing.log.read_text()
        client.rpush("site:start_urls", f"{recorder.origin}/number", f"http://localhost:{port}/name")
        ended(worker("site", CRAWL_PRIVATE_HOSTS="localhost"))
    assert _paths(recorder) == ["/name"]
