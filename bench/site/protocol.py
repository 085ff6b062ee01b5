"""HTTP/1.1 as far as a crawler's GET and HEAD need it: keep-alive, pipelining, late answers."""

import asyncio
from http import HTTPStatus
from typing import cast

from bench.site.answers import Request, Response, Site

#: A request head larger than this is refused, and no more than this is read ahead of an answer.
MAX_HEAD_BYTES = 16 * 1024

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_CONNECTION = {True: "", False: "Connection: close\r\n"}


class _RefusedError(Exception):
    """A request that is not answered by the site; the connection ends with it."""

    def __init__(self, status: int, reason: str, headers: str = "") -> None:
        super().__init__(reason)
        self.response = Response(status, f"{reason}\n".encode(), "text/plain; charset=utf-8", headers)


class HttpConnection(asyncio.Protocol):
    """Serve one connection: its requests are answered in their order, one at a time."""

    def __init__(self, site: Site, connections: set["HttpConnection"]) -> None:
        self._site = site
        self._connections = connections
        self._buffer = b""
        self._late: tuple[asyncio.TimerHandle, Request] | None = None
        self._congested = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, to be closed when the server stops."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # given by asyncio
        """Forget the connection, and the late answer that it waited for."""
        self._connections.discard(self)
        if self._late:
            timer, request = self._late
            timer.cancel()
            self._site.traffic.end(request.host)

    def data_received(self, data: bytes) -> None:
        """Answer what is complete; read no further while the answers lag behind."""
        self._buffer += data
        self._advance()
        if len(self._buffer) > MAX_HEAD_BYTES:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Stop answering: the client does not take what it has asked for."""
        self._congested = True

    def resume_writing(self) -> None:
        """Go on answering."""
        self._congested = False
        self._advance()

    def abort(self) -> None:
        """End the connection at once, whatever its client still waits for."""
        self._transport.abort()

    def _advance(self) -> None:
        """Answer what has arrived, as far as the client takes the answers."""
        while not self._late and not self._congested and not self._transport.is_closing():
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            try:
                if not end and len(head) <= MAX_HEAD_BYTES:
                    break
                request, keep_alive = _parse(head)
            except _RefusedError as refused:
                self._write(refused.response, body=True, keep_alive=False)
                return
            self._buffer = rest
            response = self._site.answer(request)
            if response.delay_s:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(response.delay_s, self._send_late, request, response, keep_alive)
                self._late = timer, request
            else:
                self._send(request, response, keep_alive)
        if len(self._buffer) <= MAX_HEAD_BYTES:
            self._transport.resume_reading()

    def _send_late(self, request: Request, response: Response, keep_alive: bool) -> None:
        self._late = None
        self._send(request, response, keep_alive)
        self._advance()

    def _send(self, request: Request, response: Response, keep_alive: bool) -> None:
        if not self._site.is_control(request):
            self._site.traffic.end(request.host)
        self._write(response, body=request.method == "GET", keep_alive=keep_alive)

    def _write(self, response: Response, *, body: bool, keep_alive: bool) -> None:
        content = f"Content-Type: {response.content_type}\r\nContent-Length: {len(response.body)}\r\n"
        if response.status == 304:  # its headers would be those of the page that is not sent
            content = ""
        head = f"{_STATUS_LINES[response.status]}{content}{response.headers}{_CONNECTION[keep_alive]}\r\n".encode()
        self._transport.write(head + response.body if body else head)
        if not keep_alive:
            self._transport.close()


def _parse(head: bytes) -> tuple[Request, bool]:
    """Read a request head; give the request and whether the connection stays open after it."""
    if len(head) > MAX_HEAD_BYTES:
        raise _RefusedError(431, "The request head is too large.")
    text = head.decode("latin-1")
    line, _, headers = text.partition("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _RefusedError(400, "Not an HTTP/1 request.")
    method, target, version = words
    if method not in ("GET", "HEAD"):
        raise _RefusedError(405, f"{method} is not supported.", "Allow: GET, HEAD\r\n")
    headers = f"\r\n{headers}\r\n"
    lowered = headers.lower()
    if "\r\ntransfer-encoding:" in lowered or _header(headers, lowered, "content-length") not in ("", "0"):
        raise _RefusedError(400, "A request with a body is not supported.")
    host = _header(headers, lowered, "host")
    if target.startswith("http://"):  # as clients of a proxy ask; then Host does not count
        host, slash, path = target.removeprefix("http://").partition("/")
        target = slash + path or "/"
    request = Request(
        method,
        host.partition(":")[0].lower(),
        target,
        _header(headers, lowered, "if-none-match"),
        _header(headers, lowered, "if-modified-since"),
    )
    keep_alive = version != "HTTP/1.0" and _header(headers, lowered, "connection").lower() != "close"
    return request, keep_alive


def _header(headers: str, lowered: str, name: str) -> str:
    """Give a header's value; searched for in lower case, taken as it was sent."""
    start = lowered.find(f"\r\n{name}:")
    if start < 0:
        return ""
    start += len(name) + 3
    return headers[start : headers.index("\r\n", start)].strip()
