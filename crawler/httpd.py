"""Serve a few pages over HTTP from a thread: the worker's and the exporter's endpoint."""

import socket
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from crawler.errors import ConfigError


class Page(NamedTuple):
    """Hold one answer."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


class Httpd(ThreadingHTTPServer):
    """Serve *pages*, each made afresh at each request, at *host* and *port* (0: a free one) until closed.

    Raises OSError when the port can't be had.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        super().__init__((host, port), _Handler)
        self._thread = Thread(target=self.serve_forever, name=f"httpd-{self.port}", daemon=True)

    @classmethod
    def listen(cls, name: str, host: str, ports: Iterable[int], pages: Mapping[str, Callable[[], Page]]) -> Self:
        """Serve *pages* at the first port of *ports* that can be had.

        Raises ConfigError, which names the setting *name* that gave the ports.
        """
        refused: list[str] = []
        for port in ports:
            try:
                server = cls(host, port, pages)
            except OSError as error:
                refused.append(f"{host}:{port}: {error.strerror or error}")
            else:
                server._thread.start()
                return server
        raise ConfigError(
            f"{name}: no port to listen on ({'; '.join(refused)}); stop what holds it or give another one"
        )

    @property
    def port(self) -> int:
        """Return the port that is listened on."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind as the base class does, but without its look-up of the host's name, which may take many seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    def close(self) -> None:
        """Stop listening; returns once the port is free."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Httpd
    server_version = "seedbed"
    sys_version = ""
    #: A client that says nothing must not hold a thread for ever.
    timeout = 10

    def do_GET(self) -> None:
        make = self.server.pages.get(urlsplit(self.path).path)
        page = make() if make else Page(b"no such page\n", status=HTTPStatus.NOT_FOUND)
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: a line for every scrape helps nobody."""


def landing_page(title: str, text: str, paths: Iterable[str]) -> Page:
    """Return a page that tells a person where they are and what else there is."""
    links = "".join(f'<li><a href="{path}">{path}</a></li>' for path in paths)
    html = f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{text}</p><ul>{links}</ul>\n"
    return Page(html.encode(), "text/html; charset=utf-8")
