"""Real servers with the deployment's settings, each test with a database of its own, and the way to wait."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from pymongo import MongoClient
from redis import Redis

from bench.servers import (
    EmbeddedMongo,
    EmbeddedRedis,
    ServerMissingError,
    find_mongo,
    installed_redis,
)

Server = TypeVar("Server", EmbeddedRedis, EmbeddedMongo)

_ROOT = Path(__file__).parents[1]
_REDIS_CONF = _ROOT / "redis.conf"
_MONGOD_CONF = _ROOT / "mongod.conf"

_POLL_S = 0.02
_database_numbers = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `every_redis` on each Redis of this machine."""
    if "redis_server" in metafunc.fixturenames and metafunc.definition.get_closest_marker("every_redis"):
        metafunc.parametrize("redis_server", installed_redis(), indirect=True, ids=str, scope="session")


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedRedis]:
    """Give a running Redis; its data are whatever earlier tests left, so most tests want `redis_url`."""
    with _or_skip(lambda: EmbeddedRedis(getattr(request, "param", None), config_file=_REDIS_CONF)) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """Give the address of an empty Redis database."""
    with Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[EmbeddedMongo]:
    """Give a running mongod, a replica set of one as in the deployment."""
    with _or_skip(_real_mongo) as server:
        yield server


@pytest.fixture
def mongo_uri(mongo_server: EmbeddedMongo) -> str:
    """Give the address of the MongoDB server; it names no database."""
    return mongo_server.url


@pytest.fixture
def mongo_db(mongo_server: EmbeddedMongo) -> Iterator[str]:
    """Give the name of a database that no other test has used."""
    name = f"test_{next(_database_numbers)}"
    yield name
    if mongo_server.running:
        with MongoClient[dict[str, object]](mongo_server.url) as client:
            client.drop_database(name)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Give the function that waits until a condition holds, and fails when it does not in time."""

    def wait(condition: Callable[[], object], timeout_s: float = 20) -> None:
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < deadline, f"still not so after {timeout_s:g} s"
            pause.wait(_POLL_S)

    return wait


def _real_mongo() -> EmbeddedMongo:
    program = find_mongo()
    if not program.is_mongod:
        raise ServerMissingError(f"only {program} runs here, and the tests need a real mongod")
    return EmbeddedMongo(program, config_file=_MONGOD_CONF, replica_set="rs0")


def _or_skip(make: Callable[[], Server]) -> Server:
    try:
        return make()
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
