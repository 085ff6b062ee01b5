"""Redis servers that work together: a master, its replica and a Sentinel; a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, Self, Unpack

import pytest
from redis import Redis
from redis.crc import key_slot

from bench.servers import (
    EmbeddedRedis,
    EmbeddedServer,
    RedisProgram,
    ServerMissingError,
    find_redis,
    installed_redis,
)
from bench.servers.process import ProcessOptions, free_port

#: What the Sentinels call the master.
MASTER = "crawl"

#: A server that does not answer for this long is down for its Sentinel or its cluster, ms.
DOWN_AFTER_MS = 1500

#: A new replica is served at once, not after some seconds in which others might come.
_QUICK_REPLICAS = {"repl-diskless-sync-delay": "0"}

_SLOTS = 16384


def program_with_tls() -> RedisProgram:
    """Return a Redis server that knows TLS; without one, skip the test, or fail it in CI."""
    for program in installed_redis():
        if b"libssl." in program.path.read_bytes():  # what a server that was built with TLS is linked to
            return program
    if os.environ.get("CI"):
        raise ServerMissingError("no Redis server here knows TLS: install redis-server")
    pytest.skip("no Redis server here knows TLS")


def ask(server: EmbeddedRedis | EmbeddedSentinel, *command: str | int) -> Any:
    """Return what *server* says to a command."""
    with Redis(port=server.port, decode_responses=True) as client:
        return client.execute_command(*command)


class EmbeddedSentinel(EmbeddedServer):
    """Run a Sentinel that watches a master, alone; *lines* are more of its configuration."""

    name: ClassVar[str] = "sentinel"

    def __init__(
        self, program: RedisProgram, watched_port: int, *lines: str, **process: Unpack[ProcessOptions]
    ) -> None:
        self._program = program
        self._watched_port = watched_port
        self._lines = lines
        super().__init__(**process)

    @property
    def url(self) -> str:
        """Give the address of the watched master, by way of this Sentinel."""
        return f"redis+sentinel://127.0.0.1:{self.port}/{MASTER}"

    @property
    def ready_line(self) -> str:
        """Give what the Sentinel logs last before it serves."""
        return "+monitor master"

    def _command(self) -> list[str]:
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.data_dir}"',
            f"sentinel monitor {MASTER} 127.0.0.1 {self._watched_port} 1",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
            *self._lines,
        ]
        written = self.data_dir / "sentinel.conf"
        written.write_text("\n".join(lines) + "\n")
        return [str(self._program.path), str(written), "--sentinel"]


class WatchedPair:
    """Run a master, its replica, and a Sentinel that makes the replica the master when the master dies."""

    def __init__(self, program: RedisProgram | None = None) -> None:
        self._program = program or find_redis()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self.master = self._stack.enter_context(EmbeddedRedis(self._program, options=_QUICK_REPLICAS))
            options = {"replicaof": f"127.0.0.1 {self.master.port}"}
            self.replica = self._stack.enter_context(EmbeddedRedis(self._program, options=options))
            self.sentinel = self._stack.enter_context(EmbeddedSentinel(self._program, self.master.port))
            _until(lambda: ask(self.replica, "ROLE")[3] == "connected")
            _until(self._is_known)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _is_known(self) -> bool:
        replicas = ask(self.sentinel, "SENTINEL SLAVES", MASTER)
        return bool(replicas) and replicas[0]["master-link-status"] == "ok"

    @property
    def url(self) -> str:
        """Give the address for clients."""
        return self.sentinel.url

    @property
    def has_failed_over(self) -> bool:
        """Tell whether the replica is the master now."""
        return str(ask(self.replica, "ROLE")[0]) == "master"

    def cut(self) -> None:
        """Let no further write reach the replica."""
        ask(self.master, "ACL", "SETUSER", "default", "-psync", "-sync")
        ask(self.master, "CLIENT", "KILL", "TYPE", "replica")
        _until(lambda: ask(self.replica, "ROLE")[3] != "connected")


class EmbeddedCluster:
    """Run a cluster of three masters that share the slots, and as many replicas as asked for, each of one of them."""

    def __init__(
        self, program: RedisProgram | None = None, *, replicas: int = 0, tls: Mapping[str, str] | None = None
    ) -> None:
        self._program = program or find_redis()
        self._tls = tls
        #: The nodes' ports for clients, where these speak TLS; the tests themselves use the plain ones.
        self._tls_ports: dict[EmbeddedRedis, int] = {}
        self._stack = ExitStack()
        self.masters, self.replicas = ([self._node() for _ in range(count)] for count in (3, replicas))

    def _node(self) -> EmbeddedRedis:
        options = {"cluster-enabled": "yes", "cluster-node-timeout": str(DOWN_AFTER_MS), **_QUICK_REPLICAS}
        if not self._tls:
            return EmbeddedRedis(self._program, options=options)
        port = next(port for port in iter(free_port, None) if port not in self._tls_ports.values())
        node = EmbeddedRedis(
            self._program, options={**options, **self._tls, "tls-cluster": "yes", "tls-port": str(port)}
        )
        self._tls_ports[node] = port
        return node

    def __enter__(self) -> Self:
        with self._stack:
            for node in (*self.masters, *self.replicas):
                self._stack.enter_context(node)
            self._form()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def nodes(self) -> list[EmbeddedRedis]:
        """Give the nodes that run."""
        return [node for node in (*self.masters, *self.replicas) if node.running]

    @property
    def url(self) -> str:
        """Give the address for clients."""
        servers = ",".join(f"127.0.0.1:{self._tls_ports.get(node, node.port)}" for node in self.nodes)
        return f"{'rediss' if self._tls else 'redis'}+cluster://{servers}"

    def owner(self, key: str) -> EmbeddedRedis:
        """Return the node that holds *key*, as one that runs has it."""
        slot = key_slot(key.encode())
        for first, last, (_, port, *_), *_ in ask(self.nodes[0], "CLUSTER SLOTS"):
            if first <= slot <= last:
                return next(node for node in (*self.masters, *self.replicas) if node.port == port)
        raise LookupError(f"no node holds {key}")

    def begin_to_move(self, key: str, target: EmbeddedRedis) -> EmbeddedRedis:
        """Begin to move the slot of *key* to *target*; return the node that it leaves."""
        slot, source = key_slot(key.encode()), self.owner(key)
        ask(target, "CLUSTER SETSLOT", slot, "IMPORTING", ask(source, "CLUSTER MYID"))
        ask(source, "CLUSTER SETSLOT", slot, "MIGRATING", ask(target, "CLUSTER MYID"))
        return source

    def end_move(self, key: str, source: EmbeddedRedis, target: EmbeddedRedis) -> None:
        """Move the keys that are left, and let *target* have the slot."""
        slot, name = key_slot(key.encode()), ask(target, "CLUSTER MYID")
        while keys := ask(source, "CLUSTER GETKEYSINSLOT", slot, 100):
            ask(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source):
            ask(node, "CLUSTER SETSLOT", slot, "NODE", name)

    def _form(self) -> None:
        for nth, node in enumerate(self.masters):
            ask(node, "CLUSTER ADDSLOTS", *range(nth * _SLOTS // 3, (nth + 1) * _SLOTS // 3))
            ask(node, "CLUSTER SET-CONFIG-EPOCH", nth + 1)
        first, *others = self.nodes
        for node in others:
            ask(node, "CLUSTER MEET", "127.0.0.1", self._tls_ports.get(first, first.port))
        _until(lambda: all(self._is_whole(node) for node in self.nodes))
        for replica, master in zip(self.replicas, self.masters, strict=False):
            ask(replica, "CLUSTER REPLICATE", ask(master, "CLUSTER MYID"))
        _until(lambda: all(ask(replica, "ROLE")[3:4] == ["connected"] for replica in self.replicas))

    def _is_whole(self, node: EmbeddedRedis) -> bool:
        info = ask(node, "CLUSTER INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the servers do not come together"
        time.sleep(0.02)
