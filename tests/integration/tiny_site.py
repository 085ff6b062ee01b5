"""A web site whose pages a test sets and changes, which answers conditional requests, and notes what it was asked."""

from __future__ import annotations

import http.server
import threading
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Answer:
    """One page; with *headers* such as ETag or Last-Modified it is answered by 304 to whoever has it already."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})


@dataclass(frozen=True)
class Asked:
    """One request, and the status of its answer."""

    path: str
    headers: dict[str, str]
    status: int


class TinySite(http.server.ThreadingHTTPServer):
    """Serve `pages`, by their paths; a context."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, Answer] = {}
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def statuses(self) -> dict[str, list[int]]:
        """Return the statuses that were answered for each path, and forget them."""
        found: dict[str, list[int]] = {}
        for one in self.asked:
            found.setdefault(one.path, []).append(one.status)
        self.asked.clear()
        return found

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TinySite

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path, Answer(b"no such page", 404))
        has_it = any(
            name in page.headers and self.headers[condition] == page.headers[name]
            for name, condition in (("ETag", "If-None-Match"), ("Last-Modified", "If-Modified-Since"))
        )
        self._answer(304 if has_it else page.status, page.headers, b"" if has_it else page.body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, {"Content-Type": "text/plain"}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.server.asked.append(Asked(self.path, dict(self.headers), status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass
