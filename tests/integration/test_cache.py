"""Values that workers share: made once, for their lifetime, and by each worker itself where Redis can't help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from redis import Redis

from bench.servers import EmbeddedRedis
from bench.servers.process import free_port
from crawler import cache as cache_module
from crawler import shelf
from crawler.cache import Cache
from crawler.errors import NotDataError
from crawler.frontier.keys import shared_value
from crawler.items_to_redis import ItemsToRedis
from crawler.resume import ResumeState
from crawler.shelf import LOCK, VALUE, Memory
from deploy.init import DRAWN, USERS, redis_acl
from tests.crawlers import MakeCrawler, make_crawler
from tests.topologies import EmbeddedCluster, ask

__all__ = ["make_crawler"]

KEY = shared_value("", "token", "a.example")


class Maker:
    """Make values, and count; each waits for the gate."""

    def __init__(self, *values: Any) -> None:
        self.values = list(values)
        self.made = 0
        self.began = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> Any:
        self.made += 1
        self.began.set()
        await self.gate.wait()
        value = self.values[min(self.made, len(self.values)) - 1]
        if isinstance(value, Exception):
            raise value
        return value


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


def looks(client: Redis) -> int:
    """Count how often a worker looked for a value."""
    calls: int = client.info("commandstats").get("cmdstat_get", {}).get("calls", 0)
    return calls


@pytest.mark.every_redis
async def test_a_value_is_made_once_for_all_who_ask_in_all_workers(make_crawler: MakeCrawler, client: Redis) -> None:
    value = {"at": datetime(2026, 11, 30, tzinfo=UTC), "price": Decimal("1.10"), "raw": b"\x00\xff", 7: ("a", {1, 2})}
    make = Maker(value)
    make.gate.clear()
    crawlers = [make_crawler() for _ in range(3)]
    caches = [Cache.of(crawler, "token", lifetime_s=100) for crawler in crawlers for _ in range(2)]
    before = looks(client)
    asking = [asyncio.create_task(cache.get_or_make("a.example", make)) for cache in caches for _ in range(5)]
    await make.began.wait()
    async with asyncio.timeout(20):
        while looks(client) < before + 3:  # noqa: ASYNC110 - until all three workers saw that there is nothing yet
            await asyncio.sleep(0.01)
    make.gate.set()
    assert await asyncio.gather(*asking) == 30 * [value]
    assert make.made == 1
    assert sum(crawler.stats.get_value("cache/token/made", 0) for crawler in crawlers) == 1
    assert 0 < client.pttl(KEY) <= 100_000
    assert client.keys() == [KEY.encode()]


async def test_kinds_and_namespaces_keep_their_values_apart(make_crawler: MakeCrawler) -> None:
    crawler = make_crawler()
    await Cache.of(crawler, "token", 100).set("a", "secret")
    assert await Cache.of(crawler, "token", 100).get("a") == "secret"
    assert await Cache.of(crawler, "config", 100).get("a", "none") == "none"
    assert await Cache.of(make_crawler(FRONTIER_NAMESPACE="other"), "token", 100).get("a") is None
    with pytest.raises(ValueError, match="'a:b': a kind of cached values"):
        Cache.of(crawler, "a:b", 100)


async def test_a_value_lives_as_long_as_its_kind_says_of_it(make_crawler: MakeCrawler, client: Redis) -> None:
    tokens = Cache.of(make_crawler(), "token", lifetime_s=lambda token: token["expires_in"] - 60)
    make = Maker({"expires_in": 160}, {"expires_in": 60})
    assert await tokens.get_or_make("a.example", make) == {"expires_in": 160}
    assert 90_000 < client.pttl(KEY) <= 100_000
    # One that lives no longer is given to whoever asked, and not kept; nor does its maker's lock stay.
    await tokens.forget("a.example")
    assert await tokens.get_or_make("a.example", make) == {"expires_in": 60}
    assert client.keys() == []
    await tokens.set("a.example", {"expires_in": 160})
    await tokens.set("a.example", {"expires_in": 0})
    assert await tokens.get("a.example") is None


async def test_redis_is_not_asked_again_for_a_minute(
    make_crawler: MakeCrawler, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (Cache.of(make_crawler(), "token", 3600) for _ in range(2))
    await one.set("a.example", 1)
    await other.set("a.example", 2)
    before = looks(client)
    assert [await one.get("a.example") for _ in range(50)] == 50 * [1]
    assert looks(client) == before
    now_s = shelf.time.monotonic() + shelf.REMEMBER_S
    monkeypatch.setattr(shelf.time, "monotonic", lambda: now_s)
    assert await one.get("a.example") == 2


def test_what_is_remembered_is_bounded_and_the_latest() -> None:
    memory = Memory(limit_bytes=10_000)
    for number in range(100):
        memory.put(f"{number}", bytes(700), 60)
        memory.get("0")
    kept = [number for number in range(100) if memory.get(f"{number}")]
    assert kept == [0, *range(91, 100)]


async def test_what_others_changed_is_not_forgotten_with_what_was_refused(make_crawler: MakeCrawler) -> None:
    one, other = (Cache.of(make_crawler(), "token", 3600) for _ in range(2))
    await one.set("a.example", "old")
    assert await other.get("a.example") == "old"
    await one.forget("a.example", "old")
    assert await one.get_or_make("a.example", Maker("new")) == "new"
    await other.forget("a.example", "old")
    assert await other.get("a.example") == "new"
    await one.forget("a.example")
    assert await one.get("a.example") is None


async def test_what_make_raises_is_raised_and_the_next_one_tries(make_crawler: MakeCrawler, client: Redis) -> None:
    one, other = (Cache.of(make_crawler(), "token", 3600) for _ in range(2))
    with pytest.raises(ZeroDivisionError):
        await one.get_or_make("a.example", Maker(ZeroDivisionError()))
    assert client.keys() == []
    assert await other.get_or_make("a.example", Maker("value")) == "value"


async def test_whoever_dies_while_it_makes_a_value_does_not_hold_up_the_others(
    make_crawler: MakeCrawler, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.set(KEY, LOCK + b"dead", px=200)
    assert await Cache.of(make_crawler(), "token", 3600).get_or_make("a.example", Maker("value")) == "value"
    assert client.get(KEY).startswith(VALUE)
    client.set(KEY, LOCK + b"slow")
    monkeypatch.setattr(cache_module, "PATIENCE_S", 0.1)
    assert await Cache.of(make_crawler(), "token", 3600).get_or_make("a.example", Maker("own")) == "own"


@pytest.mark.parametrize("garbage", [b"", b"text", VALUE, VALUE + b"\xc1", VALUE + b"\xc7\x01\x63a", b"\x80\x04N."])
async def test_what_cant_be_read_is_made_anew(make_crawler: MakeCrawler, client: Redis, garbage: bytes) -> None:
    client.set(KEY, garbage)
    assert await Cache.of(make_crawler(), "token", 3600).get("a.example", "none") == "none"
    client.set(KEY, garbage)
    assert await Cache.of(make_crawler(), "token", 3600).get_or_make("a.example", Maker("value")) == "value"
    assert await Cache.of(make_crawler(), "token", 3600).get("a.example") == "value"


async def test_a_key_of_another_type_is_made_anew(make_crawler: MakeCrawler, client: Redis) -> None:
    client.rpush(KEY, "no", "string")
    assert await Cache.of(make_crawler(), "token", 3600).get_or_make("a.example", Maker("value")) == "value"
    assert await Cache.of(make_crawler(), "token", 3600).get("a.example") == "value"


async def test_only_data_and_no_more_than_a_megabyte_is_kept(make_crawler: MakeCrawler, client: Redis) -> None:
    crawler = make_crawler()
    tokens = Cache.of(crawler, "token", 3600)
    with pytest.raises(NotDataError, match=r"cached token 'a.example': a .*Maker at \['b'\]\[0\] is no data"):
        await tokens.get_or_make("a.example", Maker({"b": [Maker()]}))
    large = bytes(cache_module.MAX_BYTES)
    make = Maker(large)
    assert [await tokens.get_or_make("a.example", make) for _ in range(2)] == [large, large]
    assert make.made == 2
    assert crawler.stats.get_value("cache/token/too_large") == 2
    assert client.keys() == []


# -- Redis away, or full


async def test_without_redis_each_worker_makes_its_own(
    make_crawler: MakeCrawler, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = make_crawler(REDIS_URL=f"redis://127.0.0.1:{free_port()}")
    tokens = Cache.of(crawler, "token", 3600)
    make = Maker("value")
    with caplog.at_level(logging.WARNING):
        assert [await tokens.get_or_make("a.example", make) for _ in range(5)] == 5 * ["value"]
        await tokens.set("b.example", 1)
        await tokens.forget("c.example")
        assert await tokens.get("c.example", "none") == "none"
    assert make.made == 1
    assert len([record for record in caplog.records if "Meanwhile each worker makes by itself" in record.message]) == 1


async def test_a_full_redis_is_passed_by(make_crawler: MakeCrawler) -> None:
    with EmbeddedRedis(options={"maxmemory": "1"}) as server:
        tokens = Cache.of(make_crawler(REDIS_URL=server.url), "token", 3600)
        make = Maker("value")
        assert [await tokens.get_or_make("a.example", make) for _ in range(5)] == 5 * ["value"]
        await tokens.set("b.example", 1)
        assert await tokens.get("b.example") == 1
        assert make.made == 1


async def test_redis_comes_back_and_is_asked_again(make_crawler: MakeCrawler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "AWAY_S", 0.0)
    with EmbeddedRedis() as server:
        one, other = (Cache.of(make_crawler(REDIS_URL=server.url), "token", 3600) for _ in range(2))
        await one.set("a.example", 1)
        server.kill()
        assert await other.get("a.example") is None
        server.restart()
        await one.set("a.example", 2)
        assert await other.get("a.example") == 2


async def test_on_a_cluster_all_values_are_on_one_node(make_crawler: MakeCrawler) -> None:
    with EmbeddedCluster() as cluster:
        one, other = (Cache.of(make_crawler(REDIS_URL=cluster.url), "token", 3600) for _ in range(2))
        for number in range(20):
            assert await one.get_or_make(f"{number}.example", Maker(number)) == number
        assert [await other.get(f"{number}.example") for number in range(20)] == [*range(20)]
        assert ask(cluster.owner(KEY), "DBSIZE") == 20


# -- the deployment's account


async def test_the_account_of_the_workers_may_do_all_of_it(make_crawler: MakeCrawler) -> None:
    """With the cache, resume states and lists of items, and nothing that Redis has to deny."""
    accounts = redis_acl(USERS.read_text(), dict.fromkeys(DRAWN, "secret")).splitlines()
    [rules] = [line.split()[2:] for line in accounts if line.startswith("user worker ")]
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        rules = [rule for rule in rules if server.has_bloom or not rule.startswith("+bf.")]
        client.execute_command("ACL", "SETUSER", "worker", "reset", *rules)
        account = {"REDIS_URL": server.url, "REDIS_USERNAME": "worker", "REDIS_PASSWORD": "secret"}
        crawler = make_crawler(**account)
        tokens = Cache.of(crawler, "token", 3600)
        assert await tokens.get_or_make("a.example", Maker("value")) == "value"
        with pytest.raises(ZeroDivisionError):
            await tokens.get_or_make("b.example", Maker(ZeroDivisionError()))
        await tokens.forget("a.example")
        state = ResumeState.of(crawler, "a.example")
        assert await state.save(page=1, add={"items": 1})
        assert (await state.load()).page == 1
        await state.forget()
        pipeline = ItemsToRedis.from_crawler(make_crawler(ITEMS_LIST_MAX=10, **account))
        await pipeline.process_item({"number": 1})
        await pipeline.close_spider()
        assert client.keys() == [b"plain:items"]
        assert client.acl_log() == []
