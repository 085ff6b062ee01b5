"""The sample site as a program: its flags, its messages, its exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import fields

import pytest

from bench.site import SPELLINGS, SiteConfig, SiteProcess, expected_pages, expected_products, page_count
from bench.site.__main__ import main

EVERYTHING = SiteConfig(
    products=7,
    categories=3,
    seed=5,
    links_per_page=21,
    page_bytes=9000,
    host_names=("a.test", "b.test"),
    bind=("127.0.0.1",),
    port=8765,
    public_port=80,
    spellings=SPELLINGS[:2],
    spelling_share=0.5,
    moved_share=0.1,
    missing_share=0.2,
    private_share=0.3,
    failing_share=0.4,
    slow_share=0.6,
    slow_s=0.25,
    crawl_delay_s=0.125,
    throttled_host="b.test",
    throttled_requests=9,
    throttle_status=503,
    retry_after_s=11,
    etags=True,
    log_size=12,
)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.site", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_setting_reaches_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(getattr(EVERYTHING, setting.name) != setting.default for setting in fields(SiteConfig))
    assert main(["--list", *EVERYTHING.arguments()]) == 0
    pages = capsys.readouterr().out.splitlines()
    assert len(pages) == page_count(EVERYTHING)
    assert set(pages) == expected_pages(EVERYTHING)
    assert main(["--list-products", *EVERYTHING.arguments()]) == 0
    products = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {product["sku"] for product in products} == set(expected_products(EVERYTHING))
    with SiteProcess(EVERYTHING) as site:
        assert site.config == EVERYTHING


def test_the_defaults_need_no_flags() -> None:
    assert SiteConfig().arguments() == []


def test_the_process_is_asked_through_its_object() -> None:
    with SiteProcess(SiteConfig(port=0, products=5, log_size=10)) as site:
        assert site.stats()["requests"] == 0
        with socket.create_connection(("127.0.0.1", site.config.port), timeout=30) as client:
            client.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            while client.recv(65536):
                pass
        assert site.stats()["by_kind"] == {"home": 1}
        assert [entry["target"] for entry in site.log()] == ["/"]
        site.reset()
        assert site.stats()["requests"] == len(site.log()) == 0
        pid = site.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "bench.site", "--port", "0", "--products", "5", "--slow-s", "3600"]
    with subprocess.Popen([*command, "--slow-share", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        ready = process.stdout.readline().decode()
        assert ready.startswith("Sample site ready at http://127.0.0.1:")
        port = int(ready.split("(port ")[1].split(",")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(10) == b"HTTP/1.1 2"  # an open connection does not hold it up
            process.send_signal(number)
            assert process.wait(30) == 0
        assert process.stderr.read() == b""


def test_a_port_in_use_is_said_and_ends_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--port", str(port))
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"bench.site: can't listen on 127.0.0.1, port {port}: Address already in use;")
        assert result.stderr.count("\n") == 1
        reason = r"did not start: .*Address already in use"
        with pytest.raises(RuntimeError, match=reason), SiteProcess(SiteConfig(port=port)):
            pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--products", "0"), "products=0: must be"), (("--list", "--port", "0"), "port=0: not chosen yet")],
)
def test_a_wrong_flag_is_said_and_ends_it(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert words in capsys.readouterr().err


def test_a_reader_may_leave_early() -> None:
    command = [sys.executable, "-m", "bench.site", "--list", "--products", "200000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"http://127.0.0.1:8000/\n"
        process.stdout.close()
        assert process.stderr.read() == b""
