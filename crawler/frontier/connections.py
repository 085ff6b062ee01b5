"""Connections to a server that may change: each asks anew where it is, and leaves one that is no longer the one."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection as AsyncAbstractConnection
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.connection import UnixDomainSocketConnection as AsyncUnixConnection
from redis.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AskError, ClusterDownError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.frontier.address import RedisAddress, Server

#: Returns the server to talk to now; may block.
Locate = Callable[[], Server]


class ElsewhereError(RedisConnectionError):
    """The server that was asked is not, or no longer, the one to ask; the next connection goes to the right one."""


class SeekingConnection(Connection):
    """Go where *locate* says, or, without one, to a host whose name may come to mean another server."""

    def __init__(self, *, locate: Locate | None = None, **options: Any) -> None:
        self._locate = locate
        super().__init__(**options)  # type: ignore[no-untyped-call] # here and below: the library's own omission

    def connect(self) -> None:
        """Connect, unless it is connected."""
        if self._locate is not None and self._sock is None:
            self.host, self.port = self._locate()
        super().connect()  # type: ignore[no-untyped-call]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read one reply; raises ElsewhereError when it says that this is the wrong server."""
        try:
            return super().read_response(*args, **options)
        except ResponseError as error:
            if not _is_elsewhere(error, self._locate):
                raise
            self.disconnect()  # type: ignore[no-untyped-call]
            raise ElsewhereError(_why(error)) from error


class SeekingSSLConnection(SeekingConnection, SSLConnection):
    """Do the same over TLS."""


class AsyncSeekingConnection(AsyncConnection):
    """Do the same for asyncio; *locate* runs in a thread."""

    def __init__(self, *, locate: Locate | None = None, **options: Any) -> None:
        self._locate = locate
        super().__init__(**options)

    async def connect(self) -> None:
        """Connect, unless it is connected."""
        if self._locate is not None and not self.is_connected:
            self.host, self.port = await asyncio.to_thread(self._locate)
        await super().connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Read one reply; raises ElsewhereError when it says that this is the wrong server."""
        try:
            return await super().read_response(*args, **options)
        except ResponseError as error:
            if not _is_elsewhere(error, self._locate):
                raise
            await self.disconnect(nowait=True)
            raise ElsewhereError(_why(error)) from error


class AsyncSeekingSSLConnection(AsyncSeekingConnection, AsyncSSLConnection):
    """Do the same over TLS."""


def choose(address: RedisAddress) -> type[AbstractConnection]:
    """Return the kind of connection that *address* wants."""
    if address.path:
        return UnixDomainSocketConnection
    return SeekingSSLConnection if address.tls else SeekingConnection


def choose_async(address: RedisAddress) -> type[AsyncAbstractConnection]:
    """Return the kind of connection that *address* wants, for asyncio."""
    if address.path:
        return AsyncUnixConnection
    return AsyncSeekingSSLConnection if address.tls else AsyncSeekingConnection


#: Before Redis 7, the code of what a script met stands in the middle.
_find_code = re.compile(r"(?:^|: -)([A-Z]+) ").search


def code_of(error: ResponseError) -> str:
    """Return the code of an error reply, as far as the client has left it there."""
    found = _find_code(str(error))
    return found[1] if found else ""


def _is_elsewhere(error: ResponseError, locate: Locate | None) -> bool:
    """Tell whether another server is to be asked; a single one can't say where else a cluster keeps the key."""
    if isinstance(error, AskError):
        return locate is not None
    return isinstance(error, (ReadOnlyError, ClusterDownError)) or code_of(error) in {"READONLY", "MASTERDOWN"}


def _why(error: ResponseError) -> str:
    return f"its keys go to {error.host}:{error.port}" if isinstance(error, AskError) else str(error)
