"""A site on its sockets, inside the running event loop."""

import asyncio
import errno
import socket
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from bench.site.answers import Site
from bench.site.config import SiteConfig
from bench.site.protocol import HttpConnection

_BACKLOG = 1024
# A port that is free on one address may be taken on the next one; when any port will do, try others.
_ATTEMPTS = 20


class SiteServer:
    """Serve a site as long as the `async with` block runs.

    `config` is the site's configuration, in it, once started, the port that was chosen. Raises OSError that says
    which address can't be listened on and what to do.
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self._connections: set[HttpConnection] = set()
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        sockets = _listen(self.config)
        self.config = replace(self.config, port=sockets[0].getsockname()[1])
        self.site = Site(self.config)
        loop = asyncio.get_running_loop()
        for listener in sockets:
            server = await loop.create_server(
                lambda: HttpConnection(self.site, self._connections), sock=listener, backlog=_BACKLOG
            )
            self._servers.append(server)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()


def _listen(config: SiteConfig) -> list[socket.socket]:
    """Open the listening sockets, all on one port."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _listen_once(config)
        except OSError as error:
            if config.port or error.errno != errno.EADDRINUSE:
                raise
    return _listen_once(config)


def _listen_once(config: SiteConfig) -> list[socket.socket]:
    port = config.port
    sockets = []
    with ExitStack() as on_failure:
        for address in config.listen_addresses:
            listener = socket.socket()
            on_failure.callback(listener.close)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, port))
                listener.listen(_BACKLOG)
            except OSError as error:
                reason = f"can't listen on {address}, port {port}: {error.strerror}"
                remedy = "choose another --port (0: any free one), or --bind to other addresses"
                raise OSError(error.errno, f"{reason}; {remedy}") from error
            port = listener.getsockname()[1]
            sockets.append(listener)
        on_failure.pop_all()
    return sockets
