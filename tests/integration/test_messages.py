"""What a person reads when something is wrong: which setting, what to do, no traceback, and a non-zero exit code."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.demo.worker import ROOT
from bench.servers.process import free_port


def _run(environ: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], env=environ, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )


def _assert_told(done: subprocess.CompletedProcess[str], *words: str) -> None:
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said, said
    for word in words:
        assert word in said, said


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("REDIS_URL", "http://127.0.0.1:6379", ("REDIS_URL=http://127.0.0.1:6379", "redis://")),
        ("MONGO_URI", "127.0.0.1", ("MONGO_URI=127.0.0.1", "mongodb://")),
        ("DEDUP", "blom", ("DEDUP=blom", "bloom, exact, off")),
        ("DOWNLOAD_DELAY", "soon", ("DOWNLOAD_DELAY=soon",)),
        ("REDIS_PASSWORD_FILE", "/no/such/file", ("REDIS_PASSWORD_FILE=/no/such/file",)),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(
    environ: dict[str, str], name: str, value: str, words: tuple[str, ...]
) -> None:
    _assert_told(_run(environ | {name: value}, "scrapy", "crawl", "site"), *words)


def test_a_wrong_setting_of_the_command_line_is_refused_by_its_name(environ: dict[str, str]) -> None:
    done = _run(environ, "scrapy", "crawl", "site", "-s", "FRONTIER_FULL=fast")
    assert done.returncode == 2
    _assert_told(done, "seedbed: FRONTIER_FULL=fast: one of slow, drop-lowest is wanted")


@pytest.mark.parametrize("url", ["docs.example.org", "http://"])
def test_an_address_that_is_none_is_named(environ: dict[str, str], url: str) -> None:
    done = _run(environ, "scrapy", "crawl", "site", "-a", f"url=http://127.0.0.1:1/ {url}")
    _assert_told(done, f"-a url: '{url}' ", "nothing was fetched")


def test_an_unreachable_redis_is_named(environ: dict[str, str]) -> None:
    """Case R9: a worker that points at the wrong address does not sit there silently."""
    port = free_port()
    done = _run(environ | {"REDIS_URL": f"redis://:secret@127.0.0.1:{port}/0"}, "scrapy", "crawl", "site")
    _assert_told(done, f"127.0.0.1:{port}", "can't be reached", "REDIS_URL")
    assert "secret" not in done.stdout + done.stderr


def test_an_unreachable_mongodb_is_named(environ: dict[str, str]) -> None:
    port = free_port()
    uri = f"mongodb://127.0.0.1:{port}"
    done = _run(environ | {"MONGO_URI": uri, "STORE_CONNECT_S": "1"}, "scrapy", "crawl", "site")
    _assert_told(done, f"127.0.0.1:{port}", "MONGO_URI")


def test_a_metrics_port_in_use_is_named(environ: dict[str, str]) -> None:
    """Case M4."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        _assert_told(_run(environ | {"METRICS_PORT": str(port)}, "scrapy", "crawl", "site"), str(port), "METRICS_PORT")


def test_a_frontier_of_other_settings_is_refused(environ: dict[str, str]) -> None:
    """Cases D5, K3."""
    assert _run(environ, "scrapy", "seed", "site", "http://127.0.0.1:1/").returncode == 0
    _assert_told(_run(environ | {"DEDUP_CAPACITY": "1000"}, "scrapy", "crawl", "site"), "capacity")


def test_bad_seeds_are_refused_alone(environ: dict[str, str], tmp_path: Path) -> None:
    """Cases L7, S12, S13, S23: each bad entry is named; the good ones are in."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text('http://127.0.0.1:1/a\nnot-a-url\njavascript:void(0)\n{"url": 5}\nhttp://127.0.0.1:1/b\n')
    done = _run(environ, "scrapy", "seed", "site", "-f", str(seeds), "http://127.0.0.1:1/a")
    assert done.returncode == 1
    assert done.stdout.startswith("2 accepted, 1 already seen, 3 refused"), done.stdout + done.stderr
    for culprit in ("not-a-url", "javascript:void(0)"):
        assert culprit in done.stderr


def test_the_frontier_can_be_looked_at_and_steered(environ: dict[str, str]) -> None:
    assert _run(environ, "scrapy", "seed", "site", "http://127.0.0.1:1/a", "http://127.0.0.1:1/b").returncode == 0
    status = _run(environ, "scrapy", "frontier", "status")
    assert status.stdout.splitlines()[1].split()[:3] == ["site", "running", "2"], status.stdout + status.stderr
    peek = _run(environ, "scrapy", "frontier", "peek", "site")
    assert "http://127.0.0.1:1/a" in peek.stdout
    assert "2 queued seeds removed" in _run(environ, "scrapy", "frontier", "clear", "site", "--forget").stdout
    block = _run(environ, "scrapy", "frontier", "block", "shop", "a.example")
    assert block.returncode == 0, "a spider of the project can be steered before its first crawl"
    _assert_told(_run(environ, "scrapy", "frontier", "dead", "site", "retry", "7"), "no such dead seed")


@pytest.mark.parametrize(
    "command",
    [
        ("crawl", "siet"),
        ("seed", "siet", "http://127.0.0.1:1/"),
        ("frontier", "status", "siet"),
        ("frontier", "clear", "siet"),
        ("frontier", "block", "siet", "a.example"),
        ("resume_state", "siet"),
        ("reparse", "siet"),
    ],
    ids=" ".join,
)
def test_a_spider_that_there_is_not_is_named_with_those_that_there_are(
    environ: dict[str, str], command: tuple[str, ...]
) -> None:
    done = _run(environ, "scrapy", *command)
    assert done.returncode == 2
    _assert_told(done, "no spider 'siet'; it has: shop, site")
    assert not done.stdout


def test_an_action_that_there_is_not_is_named(environ: dict[str, str]) -> None:
    done = _run(environ, "scrapy", "frontier", "stauts")
    assert done.returncode == 2
    _assert_told(done, "there is no action 'stauts'")


def test_seeds_that_can_t_be_read_cost_nothing(environ: dict[str, str], tmp_path: Path) -> None:
    """A fresh start with a wrong name of a file removes nothing, and leaves no session that would hold up the crawl."""
    assert _run(environ, "scrapy", "seed", "site", "http://127.0.0.1:1/a").returncode == 0
    missing = str(tmp_path / "seeds.txt")
    done = _run(environ, "scrapy", "seed", "site", "--fresh", "-f", missing)
    assert done.returncode == 2
    _assert_told(done, missing)
    (tmp_path / "seeds.txt").write_bytes(b"http://127.0.0.1:1/b\n")
    clash = environ | {"DEDUP_CAPACITY": "1000"}
    assert _run(clash, "scrapy", "seed", "site", "-f", missing).returncode == 2
    status = json.loads(_run(environ, "scrapy", "frontier", "status", "--json").stdout)["site"]
    assert (status["queued"], status["workers"]) == (1, {}), status
