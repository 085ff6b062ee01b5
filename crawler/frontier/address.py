"""REDIS_URL taken apart: the servers that it names, who tells which of them to talk to, and how one connects to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.connection import parse_url

from crawler.config import Config
from crawler.errors import ConfigError

#: Host and port.
Server = tuple[str, int]

REDIS_PORT, SENTINEL_PORT = 6379, 26379

_FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})

#: What may stand behind the "?" of REDIS_URL, by redis-py's names. Answers are always bytes: no decode_responses.
OPTIONS = _FILES | {
    "db",
    "health_check_interval",
    "socket_connect_timeout",
    "socket_timeout",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_check_hostname",
}

#: What else redis-py reads from an address.
_ELSEWHERE = frozenset({"connection_class", "host", "path"})


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Hold where Redis is: one server (or a socket's path), or those to ask for the server."""

    servers: tuple[Server, ...]
    tls: bool = False
    #: Of a Unix socket; then there are no servers.
    path: str = ""
    #: The servers are Sentinels, which know the master by this name.
    master: str = ""
    #: The servers are nodes of a cluster.
    is_cluster: bool = False
    #: The account, the database, timeouts (seconds) and TLS, as redis-py's connections take them.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: The same for the Sentinels.
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the address that the settings name; raises ConfigError."""
        try:
            return cls._read(config)
        except ValueError as error:
            raise ConfigError(f"REDIS_URL: {error}") from None

    @classmethod
    def _read(cls, config: Config) -> Self:
        parts = urlsplit(config.redis_url)
        scheme, _, asked = parts.scheme.partition("+")
        if scheme == "unix":
            if not parts.path:
                raise ValueError("the socket's path is wanted, as in unix:///run/redis.sock")
            return cls((), path=unquote(parts.path), options=_options(config.redis_url, config))
        account, _, hosts = parts.netloc.rpartition("@")
        master, _, db = parts.path[1:].partition("/") if asked == "sentinel" else ("", "", parts.path[1:])
        if asked == "sentinel" and not master:
            raise ValueError("the name of the master is wanted behind the Sentinels: …:26379/NAME")
        if db and not db.isdigit():
            raise ValueError(f"/{db} is no database: a number is wanted")
        servers = tuple(_server(host, SENTINEL_PORT if master else REDIS_PORT) for host in hosts.split(","))
        if len(servers) > 1 and not asked:
            raise ValueError("several servers are either Sentinels (redis+sentinel://) or a cluster (redis+cluster://)")
        # What is left is the address of one server, as redis-py reads it.
        one = parts._replace(scheme=scheme, netloc=f"{account}@localhost", path=f"/{db}")
        options = _options(one.geturl(), config)
        if asked == "cluster" and options["db"]:
            raise ValueError("a cluster has only database 0")
        sentinel_options = {name: value for name, value in options.items() if name.startswith("ssl_")}
        sentinel_options |= _account(config.redis_sentinel_username, config.redis_sentinel_password)
        return cls(
            servers,
            tls=scheme == "rediss",
            master=unquote(master),
            is_cluster=asked == "cluster",
            options=options,
            sentinel_options=sentinel_options,
        )

    def __str__(self) -> str:
        """Say where, without a password."""
        servers = ", ".join(f"{host}:{port}" for host, port in self.servers)
        if self.master:
            return f"{self.master} (known to the Sentinels {servers})"
        return self.path or (f"the cluster {servers}" if self.is_cluster else servers)


def _server(text: str, port: int) -> Server:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or port


def _account(username: str, password: str) -> dict[str, str]:
    return {name: value for name, value in (("username", username), ("password", password)) if value}


def _options(url: str, config: Config) -> dict[str, Any]:
    for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        if name not in OPTIONS:
            raise ValueError(f"{name} is none of its options; they are {', '.join(sorted(OPTIONS))}")
        if name in _FILES and not Path(value).is_file():
            raise ValueError(f"{name}={value}: there is no such file")
    read = parse_url(url)  # type: ignore[no-untyped-call] # the library's own omission
    account = _account(config.redis_username, config.redis_password)
    return {"db": 0} | account | {name: value for name, value in read.items() if name not in _ELSEWHERE}
