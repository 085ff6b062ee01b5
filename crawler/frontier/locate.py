"""Who knows which server to talk to, where that changes: the Sentinels, or the nodes of a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from crawler.errors import ConfigError, FrontierError
from crawler.frontier.address import RedisAddress, Server

#: How long one of those that are asked may take to answer, seconds.
TIMEOUT_S = 2.0


class Locator(ABC):
    """Find a server by asking one that knows, the next if it does not answer; called in threads."""

    #: What errors call those that are asked.
    what: ClassVar[str]
    #: The settings that hold the account for them.
    account: ClassVar[str]

    def __init__(self, address: RedisAddress, options: Mapping[str, Any]) -> None:
        self._servers = list(address.servers)
        self._options = {
            **options,
            "ssl": address.tls,
            "socket_timeout": TIMEOUT_S,
            "socket_connect_timeout": TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
            "decode_responses": True,
        }

    def __call__(self) -> Server:
        """Return the server to talk to now.

        One round trip, or up to TIMEOUT_S for each that does not answer. Raises redis-py's ConnectionError when nobody
        knows it, FrontierError when an account is refused, and ConfigError when they are not what REDIS_URL says.
        """
        silent: dict[Server, str] = {}
        for server in self._servers:
            try:
                found = self._ask(server)
            except (AuthenticationError, NoPermissionError) as error:
                where = f"{_text(server)}, {self.what},"
                raise FrontierError(f"{where} refuses the account: {error}. Check {self.account}") from error
            except ResponseError as error:
                raise ConfigError(f"REDIS_URL: {_text(server)} is not {self.what}: {error}") from None
            except (RedisError, OSError) as error:
                silent[server] = str(error)
            else:
                # The next time another one is asked: what this one knew may turn out to be stale.
                first = [other for other in self._servers if other != server and other not in silent]
                self._servers = [*first, server, *(other for other in self._servers if other in silent)]
                return found
        raise redis.ConnectionError("; ".join(f"{_text(server)}: {error}" for server, error in silent.items()))

    @abstractmethod
    def _ask(self, server: Server) -> Server:
        """Return what *server* says; raises a RedisError."""

    @contextmanager
    def _connected(self, server: Server) -> Iterator[Any]:  # redis-py's annotations leave out execute_command
        host, port = server
        with redis.Redis(host, port, **self._options) as client:
            yield client


class SentinelLocator(Locator):
    """Find the master of an address's Sentinels."""

    what = "a Sentinel"
    account = "REDIS_SENTINEL_USERNAME and REDIS_SENTINEL_PASSWORD"

    def __init__(self, address: RedisAddress) -> None:
        super().__init__(address, address.sentinel_options)
        self._master = address.master

    def _ask(self, server: Server) -> Server:
        with self._connected(server) as sentinel:
            answer = sentinel.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self._master)
        if not answer:
            raise redis.ConnectionError(f"it knows no master {self._master!r}")
        host, port = answer
        return host, int(port)


class ClusterLocator(Locator):
    """Find the node of a cluster that holds a key, and remember its other nodes."""

    what = "a node of a cluster"
    account = "REDIS_USERNAME and REDIS_PASSWORD"

    def __init__(self, address: RedisAddress, key: str) -> None:
        super().__init__(address, address.options)
        self._named = address.servers
        self._slot = key_slot(key.encode())

    def _ask(self, server: Server) -> Server:
        with self._connected(server) as node:
            answer = node.execute_command("CLUSTER SLOTS")
        # A node that does not know its own host names none: it is where it was asked.
        ranges = [(first, last, [(host or server[0], port) for host, port, *_ in at]) for first, last, *at in answer]
        nodes = [node for _, _, at in ranges for node in at]
        self._servers = [*dict.fromkeys((*nodes, *self._named))]
        for first, last, at in ranges:
            if first <= self._slot <= last:
                return at[0]
        raise redis.ConnectionError(f"no node holds slot {self._slot}")


def locator(address: RedisAddress, key: str) -> Locator | None:
    """Return who finds the server that holds *key*; None where *address* is that of the server itself."""
    if address.master:
        return SentinelLocator(address)
    return ClusterLocator(address, key) if address.is_cluster else None


def _text(server: Server) -> str:
    return f"{server[0]}:{server[1]}"
