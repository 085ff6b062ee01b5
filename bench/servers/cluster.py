"""A Redis Cluster of a few masters as child processes, for the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from redis import Redis
from redis.crc import key_slot

from bench.servers.programs import ServerError
from bench.servers.redis import EmbeddedRedis

_SLOTS = 16384
_START_TIMEOUT_S = 30


class EmbeddedRedisCluster:
    """Run masters that share the slots evenly; each is started as `EmbeddedRedis` starts one."""

    def __init__(self, masters: int = 3, *, config_file: Path | None = None, options: Mapping[str, str] | None = None):
        settings = {**(options or {}), "cluster-enabled": "yes"}
        self.masters = [EmbeddedRedis(config_file=config_file, options=settings) for _ in range(masters)]
        self._exit = ExitStack()

    @property
    def url(self) -> str:
        """Give the address for clients."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.masters)

    def owner(self, key: str) -> EmbeddedRedis:
        """Return the node that holds *key*."""
        return self.masters[self._number(key_slot(key.encode()))]

    def _number(self, slot: int) -> int:
        return slot * len(self.masters) // _SLOTS

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            clients: list[Any] = [
                Redis(port=stack.enter_context(node).port, decode_responses=True) for node in self.masters
            ]
            for number, client in enumerate(clients):
                slots = [slot for slot in range(_SLOTS) if self._number(slot) == number]
                client.execute_command("CLUSTER ADDSLOTS", *slots)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                client.execute_command("CLUSTER MEET", "127.0.0.1", self.masters[0].port)
            deadline_s = time.monotonic() + _START_TIMEOUT_S
            while not all(_is_whole(client, len(clients)) for client in clients):
                if time.monotonic() > deadline_s:
                    raise ServerError(f"the nodes of the cluster did not meet within {_START_TIMEOUT_S} s")
                time.sleep(0.05)
            for client in clients:
                client.close()
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exit.close()


def _is_whole(client: Any, nodes: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == nodes
