"""The little server behind /metrics."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse

import pytest

from crawler.config import Config
from crawler.errors import ConfigError
from crawler.httpd import Httpd, Page, landing_page

PAGES = {
    "/": lambda: landing_page("Title", "Text.", ["/there"]),
    "/there": lambda: Page(b"here\n"),
    "/ill": lambda: Page(b"ill\n", status=HTTPStatus.SERVICE_UNAVAILABLE),
}


@pytest.fixture
def server() -> Iterator[Httpd]:
    server = Httpd.listen("THE_PORT", "127.0.0.1", [0], PAGES)
    yield server
    server.close()


def get(server: Httpd, path: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/there", 200, b"here\n"),
        ("/there?x=1", 200, b"here\n"),
        ("/ill", 503, b"ill\n"),
        ("/no", 404, b"no such page\n"),
    ],
)
def test_each_path_has_its_page(server: Httpd, path: str, status: int, body: bytes) -> None:
    answer, text = get(server, path)
    assert (answer.status, text) == (status, body)


def test_the_landing_page_leads_to_the_others(server: Httpd) -> None:
    answer, body = get(server, "/")
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert b'<a href="/there">' in body


def test_a_port_in_use_is_told_by_the_settings_name(server: Httpd) -> None:
    with pytest.raises(ConfigError, match=rf"THE_PORT: no port to listen on \(127\.0\.0\.1:{server.port}: Address"):
        Httpd.listen("THE_PORT", "127.0.0.1", [server.port], PAGES)


def test_of_a_range_the_first_free_port_is_taken(server: Httpd) -> None:
    """M3, M4: several workers on one host, from one setting."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    second = Httpd.listen("THE_PORT", "127.0.0.1", [server.port, free], PAGES)
    assert second.port == free
    second.close()


def test_a_closed_server_frees_its_port() -> None:
    server = Httpd.listen("THE_PORT", "127.0.0.1", [0], PAGES)
    port = server.port
    server.close()
    again = Httpd.listen("THE_PORT", "127.0.0.1", [port], PAGES)
    assert get(again, "/there")[1] == b"here\n"
    again.close()


@pytest.mark.parametrize(
    ("value", "ports"),
    [("off", []), ("9410", [9410]), ("9410-9412", [9410, 9411, 9412]), ("0", [0]), (9410, [9410])],
)
def test_the_port_may_be_one_or_a_range(value: str | int, ports: list[int]) -> None:
    """M3: an int must not crash, nor a range."""
    assert list(Config.from_environ({"METRICS_PORT": value}).metrics_ports) == ports  # type: ignore[dict-item]


@pytest.mark.parametrize("value", ["many", "9412-9410", "70000", "9410-70000", "-1", "9410,9420"])
def test_a_wrong_port_is_refused_by_name(value: str) -> None:
    with pytest.raises(ConfigError, match=f"METRICS_PORT={value}: a port, a range like 9400-9409, 0 or off is wanted"):
        Config.from_environ({"METRICS_PORT": value})
