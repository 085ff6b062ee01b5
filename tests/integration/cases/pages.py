"""A web server in the test's own process: it knows who asked for what, in which order, and answers when it may."""

from __future__ import annotations

import http.server
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

#: No page waits longer for its test, seconds.
PATIENCE_S = 180


@dataclass(frozen=True)
class Arrival:
    """Hold one request as it arrived."""

    host: str
    path: str
    worker: str


class Pages(http.server.ThreadingHTTPServer):
    """Serve a page at every path; its links are those of `links`, and `hold` may let it wait.

    It is also a proxy: with `http_proxy` set to `origin`, it is every host.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arrivals: list[Arrival] = []
        #: How often each path was answered, to the last byte.
        self.answered: Counter[str] = Counter()
        self.links: dict[str, list[str]] = {}
        #: What is served at a path instead of a page, as plain text.
        self.texts: dict[str, str] = {}
        #: Called before an answer, in the request's own thread.
        self.hold: Callable[[Arrival], object] = lambda _: None
        self._changed = threading.Condition()
        self._budget = 0
        self._released: set[str] = set()
        self._thread = threading.Thread(target=self.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def urls(self, paths: Iterable[str]) -> list[str]:
        return [self.origin + path for path in paths]

    @property
    def paths(self) -> list[str]:
        """Give what was asked for, in order."""
        return [arrival.path for arrival in self.arrivals]

    def by_worker(self) -> Counter[str]:
        """Count what was asked for, by worker."""
        return Counter(arrival.worker for arrival in list(self.arrivals))

    # -- a budget of answers

    def allow(self, count: int) -> None:
        """Let so many more pages be answered, where `hold` is `wait_for_budget`."""
        with self._changed:
            self._budget += count
            self._changed.notify_all()

    def release(self, worker: str) -> None:
        """Let the pages of one worker be answered without a budget."""
        with self._changed:
            self._released.add(worker)
            self._changed.notify_all()

    def wait_for_budget(self, page: Arrival) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._budget > 0 or page.worker in self._released, PATIENCE_S)
            self._budget -= page.worker not in self._released

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a worker that was killed while it waited for its page."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent apart; the body would wait 40 ms for the head's receipt
    server: Pages

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        host = url.hostname or self.headers["Host"].partition(":")[0]
        path = url.path + (f"?{url.query}" if url.query else "")
        arrival = Arrival(host, path, self.headers.get("User-Agent", ""))
        self.server.arrivals.append(arrival)
        self.server.hold(arrival)
        links = "".join(f'<a href="{link}">{link}</a>' for link in self.server.links.get(path, ()))
        text = self.server.texts.get(path)
        body = f"<title>{path}</title>{links}".encode() if text is None else text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if text is None else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        with suppress(ConnectionError):
            self.end_headers()
            self.wfile.write(body)
            self.server.answered[path] += 1
