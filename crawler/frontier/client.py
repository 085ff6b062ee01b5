"""Clients of Redis as the settings want them, and its errors in this project's words."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from crawler.config import Config
from crawler.errors import FrontierDownError, FrontierError, FrontierFullError
from crawler.frontier import connections
from crawler.frontier.address import RedisAddress
from crawler.frontier.connections import ElsewhereError, code_of
from crawler.frontier.locate import locator

Client = TypeVar("Client")

#: A reply that takes longer is taken for lost, seconds.
TIMEOUT_S = 10.0

#: Codes of refusals that a later try may not meet: the server starts, fails over, can't write, or runs a long script.
_PASSING = frozenset({"READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY"})

#: What a script is told that does what its account may not; it differs between versions.
_is_denied = re.compile(r"ACL failure in script|The user executing the script can't").search


class _Clients(ABC, Generic[Client]):
    """Give the client for each key: on a cluster that of the node which holds it, else always the same one.

    A client connects at its first command, and never repeats one by itself. Raises ConfigError.
    """

    def __init__(self, config: Config, timeout_s: float = TIMEOUT_S) -> None:
        self._address = RedisAddress.of(config)
        #: Where Redis is looked for, for people.
        self.where = str(self._address)
        self._options = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, **self._address.options}
        self._made: dict[int, Client] = {}

    def __call__(self, key: str) -> Client:
        """Return the client of the server that holds *key*."""
        slot = key_slot(key.encode()) if self._address.is_cluster else 0
        if slot not in self._made:
            self._made[slot] = self._make(self._options | self._place(key))
        return self._made[slot]

    def _place(self, key: str) -> dict[str, Any]:
        if self._address.path:
            return {"path": self._address.path}
        if locate := locator(self._address, key):
            return {"locate": locate}
        host, port = self._address.servers[0]
        return {"host": host, "port": port}

    @abstractmethod
    def _make(self, options: dict[str, Any]) -> Client:
        """Return a client whose connections take *options*."""


class Clients(_Clients[redis.Redis]):
    """Give blocking clients, for threads and commands; close them in the end."""

    def _make(self, options: dict[str, Any]) -> redis.Redis:
        kind = connections.choose(self._address)
        return redis.Redis.from_pool(redis.ConnectionPool(kind, retry=Retry(NoBackoff(), 0), **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        for client in self._made.values():
            client.close()


class AsyncClients(_Clients[redis.asyncio.Redis]):
    """Give asynchronous clients; close them in the end."""

    def _make(self, options: dict[str, Any]) -> redis.asyncio.Redis:
        kind = connections.choose_async(self._address)
        return redis.asyncio.Redis.from_pool(
            redis.asyncio.ConnectionPool(kind, retry=AsyncRetry(NoBackoff(), 0), **options)
        )

    async def aclose(self) -> None:
        """Disconnect."""
        for client in self._made.values():
            await client.aclose()


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn the client's errors into FrontierDownError, FrontierFullError or FrontierError, naming *where*."""
    try:
        yield
    except (AuthenticationError, AuthorizationError) as error:
        raise FrontierError(
            f"Redis at {where} refuses the account: {error}. Check REDIS_USERNAME and REDIS_PASSWORD"
        ) from error
    except ElsewhereError as error:
        raise FrontierDownError(f"Redis at {where} is not ready: {error}") from error
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise FrontierDownError(
            f"Redis at {where} can't be reached: {str(error).rstrip('.')}. Check REDIS_URL, and that it runs"
        ) from error
    except ResponseError as error:
        raise refusal(error, where) from error
    except RedisError as error:
        raise FrontierError(f"Redis at {where}: {error}") from error


def refusal(error: ResponseError, where: str) -> FrontierError:
    """Return what an error reply of the server means here."""
    text, code = str(error), code_of(error)
    if isinstance(error, OutOfMemoryError) or code == "OOM":
        return FrontierFullError(f"Redis at {where} is at its memory limit (maxmemory): give it more, or let it drain")
    if isinstance(error, (ReadOnlyError, ClusterDownError, TryAgainError)) or code in _PASSING:
        return FrontierDownError(f"Redis at {where} is not ready: {text}")
    if isinstance(error, NoPermissionError) or _is_denied(text):
        return FrontierError(f"Redis at {where} refuses the account: {text}. Check REDIS_USERNAME and REDIS_PASSWORD")
    if isinstance(error, MovedError):
        return FrontierError(f"Redis at {where} is a node of a cluster: let REDIS_URL begin with redis+cluster://")
    return FrontierError(f"Redis at {where} refused: {text}")
