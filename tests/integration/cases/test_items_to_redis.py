"""Items in a list in Redis: all of them, in order, in batches, whatever happens to Redis, its readers or a worker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.serialize import ScrapyJSONEncoder

from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import EmbeddedRedis
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.items_to_redis import ItemsToRedis
from tests.crawlers import MakeCrawler, make_crawler
from tests.integration.cases.pages import Pages
from tests.integration.cases.test_lost_requests import stop

__all__ = ["make_crawler"]

Start = Callable[..., WorkerProcess]

KEY = "plain:items"


@asynccontextmanager
async def pipeline_of(
    make: MakeCrawler, kind: type[ItemsToRedis] = ItemsToRedis, **settings: Any
) -> AsyncIterator[ItemsToRedis]:
    crawler = make(**{"STORE_FLUSH_S": 3600, **settings})
    pipeline = kind.from_crawler(crawler)
    yield pipeline
    await pipeline.close_spider()


def numbers(client: Redis, key: str = KEY) -> list[int]:
    return [json.loads(text)["number"] for text in client.lrange(key, 0, -1)]


def pushes(client: Redis) -> int:
    calls: int = client.info("commandstats").get("cmdstat_rpush", {}).get("calls", 0)
    return calls


async def test_items_keep_their_order_and_share_commands(make_crawler: MakeCrawler, client: Redis) -> None:
    before = pushes(client)
    async with pipeline_of(make_crawler, STORE_BATCH_DOCS=100) as pipeline:
        for number in range(1050):
            item = {"number": number}
            assert await pipeline.process_item(item) is item
        pipeline.hurry()
        durable = pipeline.pending()
        assert durable is not None
        await asyncio.wait_for(asyncio.shield(durable), 20)
        assert pipeline.pending() is None
    assert numbers(client) == [*range(1050)]
    assert pushes(client) - before == 11


@dataclass
class Offer:
    sku: str
    price: Decimal
    seen: datetime


async def test_items_are_the_json_of_scrapy_redis_and_stable(make_crawler: MakeCrawler, client: Redis) -> None:
    """Case M9: the same text for the same item; also with what JSON lacks."""
    moment = datetime(2026, 11, 30, 12, 1, 2, tzinfo=UTC)
    items = [
        {"name": "Żółw \ud800", "none": None, "nested": {"price": Decimal("1.10")}, "day": date(2026, 1, 2)},
        Offer("a", Decimal("0.10"), moment),
    ]
    odd = {"raw": b"\x00\xff", "tags": {"b", "a", "c"}, "mixed": frozenset({1, "1"})}
    async with pipeline_of(make_crawler) as pipeline:
        for item in (*items, odd):
            await pipeline.process_item(item)
    texts = [text.decode() for text in client.lrange(KEY, 0, -1)]
    assert texts[:2] == [ScrapyJSONEncoder().encode(item) for item in items]
    assert texts[2] == '{"raw": "AP8=", "tags": ["a", "b", "c"], "mixed": [1, "1"]}'


async def test_what_is_no_json_is_left_out_alone(make_crawler: MakeCrawler, client: Redis) -> None:
    async with pipeline_of(make_crawler) as pipeline:
        loop: dict[str, Any] = {}
        loop["itself"] = loop
        for item in ({"number": 1}, {"no": object()}, loop, {"number": 2}):
            assert await pipeline.process_item(item) is item
        assert pipeline._crawler.stats.get_value("items_to_redis/refused") == 2
    assert numbers(client) == [1, 2]


class ByKind(ItemsToRedis):
    def item_key(self, item: Any, spider: Any) -> str:
        return f"{spider.name}:{item['kind']}:items"


def as_text(item: dict[str, Any]) -> bytes:
    return repr(sorted(item.items())).encode()


async def test_the_settings_and_the_hook_of_scrapy_redis_count(make_crawler: MakeCrawler, client: Redis) -> None:
    async with pipeline_of(make_crawler, REDIS_ITEMS_KEY="%(spider)s:found", REDIS_ITEMS_SERIALIZER=as_text) as one:
        await one.process_item({"b": 1, "a": 2})
    assert client.lrange("plain:found", 0, -1) == [b"[('a', 2), ('b', 1)]"]
    async with pipeline_of(make_crawler, ByKind) as other:
        for number, kind in enumerate("abab"):
            await other.process_item({"kind": kind, "number": number})
    assert [numbers(client, f"plain:{kind}:items") for kind in "ab"] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS_ITEMS_KEY", "%(name)s:items"),
        ("REDIS_ITEMS_KEY", "100%"),
        ("REDIS_ITEMS_SERIALIZER", "no.such.function"),
    ],
)
async def test_a_wrong_setting_is_named(
    make_crawler: MakeCrawler, caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    with pytest.raises(NotConfigured):
        ItemsToRedis.from_crawler(make_crawler(**{name: value}))
    assert f"{name}={value}: a " in caplog.text


async def test_a_redis_that_is_away_or_full_gets_the_items_later(make_crawler: MakeCrawler) -> None:
    with EmbeddedRedis() as server:
        async with pipeline_of(make_crawler, REDIS_URL=server.url, STORE_BATCH_DOCS=10) as pipeline:
            for number in range(10):
                await pipeline.process_item({"number": number})
            await asyncio.shield(durable_of(pipeline))
            server.kill()
            for number in range(10, 30):
                await pipeline.process_item({"number": number})
            await asyncio.wait([durable_of(pipeline)], timeout=0.3)
            assert pipeline.pending() is not None
            server.restart()
            await asyncio.wait_for(asyncio.shield(durable_of(pipeline)), 20)
            with Redis.from_url(server.url) as client:
                assert numbers(client) == [*range(30)]
                client.config_set("maxmemory", 1)
                for number in range(30, 40):
                    await pipeline.process_item({"number": number})
                await asyncio.wait([durable_of(pipeline)], timeout=0.3)
                assert pipeline.pending() is not None
                client.config_set("maxmemory", 0)
                await asyncio.wait_for(asyncio.shield(durable_of(pipeline)), 20)
                assert numbers(client) == [*range(40)]


async def test_a_full_list_or_buffer_makes_the_crawl_wait(make_crawler: MakeCrawler, client: Redis) -> None:
    async with pipeline_of(
        make_crawler, ITEMS_LIST_MAX=20, STORE_BATCH_DOCS=10, STORE_BUFFER_BYTES=5_000, STORE_CLOSE_S=1
    ) as pipeline:

        async def crawl() -> None:
            for number in range(200):
                await pipeline.process_item({"number": number})

        crawling = asyncio.create_task(crawl())
        taken: list[int] = []
        async with asyncio.timeout(60):
            while len(taken) < 180:
                await asyncio.wait([crawling], timeout=0.05)
                assert client.llen(KEY) < 20 + 10
                assert pipeline._buffer.size_bytes < 5_000 + 1_000
                if pipeline.full or crawling.done():
                    taken += [json.loads(text)["number"] for text in client.lpop(KEY, 10) or ()]
        await crawling
    assert [*taken, *numbers(client)] == [*range(200)]


def durable_of(pipeline: ItemsToRedis) -> asyncio.Future[None]:
    durable = pipeline.pending()
    assert durable is not None
    return durable


async def test_a_key_of_another_type_ends_the_worker_in_words(
    make_crawler: MakeCrawler, client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(KEY, "no list")
    ended = asyncio.Event()

    class Engine:
        async def close_spider_async(self, reason: str) -> None:
            assert reason == "items_to_redis_error"
            ended.set()

    async with pipeline_of(make_crawler, STORE_CLOSE_S=0.1) as pipeline:
        pipeline._crawler.engine = Engine()  # type: ignore[assignment]
        await pipeline.process_item({"number": 1})
        pipeline.hurry()
        await asyncio.wait_for(ended.wait(), 20)
        assert "Items can't go to Redis: Redis at 127.0.0.1" in caplog.text
        await pipeline._crawler.signals.send_catch_log_async(signals.spider_closed)
        assert pipeline._crawler.spider is None, "the exit code would be 0"


# -- whole crawls


def test_a_killed_worker_leaves_no_page_without_its_items(
    pages: Pages, worker: Start, ended: Callable[..., None], eventually: Callable[..., None], client: Redis
) -> None:
    """Pages are acknowledged when their items are in the list."""
    paths = [f"/page{number}" for number in range(300)]
    pages.links = {"/": paths}
    pages.hold = pages.wait_for_budget
    client.rpush("titles:start_urls", f"{pages.origin}/")
    settings = {"ITEMS_TO_REDIS": "true", "STORE_FLUSH_S": "60", "STORE_BATCH_DOCS": "40", "FRONTIER_LEASE_S": "1"}
    victim, survivor = (worker("titles", **settings) for _ in range(2))
    pages.allow(150)
    eventually(lambda: client.llen("titles:items") >= 40 and min(pages.by_worker().values()) > 20, 60)
    # What the list lacks, of pages that were answered, is in the workers' memory: not one of these counts as done.
    status = Controls(client, Keys.of("titles"), "the tests' Redis").status()
    assert status.done <= client.llen("titles:items")
    victim.kill()
    pages.allow(100_000)
    ended(survivor)
    counts = Counter(json.loads(text)["path"] for text in client.lrange("titles:items", 0, -1))
    assert set(counts) == {"/", *paths}
    # A page whose items were in the list, and was not acknowledged yet, is there twice: a batch or two of them.
    assert counts.total() < 301 + 150
    status = Controls(client, Keys.of("titles"), "the tests' Redis").status()
    assert (status.state, status.done, status.unbalanced) == ("complete", 301, 0)


def test_what_waits_is_in_the_list_when_a_worker_has_stopped(
    pages: Pages, worker: Start, eventually: Callable[..., None], client: Redis
) -> None:
    """Case M7."""
    pages.hold = pages.wait_for_budget
    client.rpush("titles:start_urls", *pages.urls(f"/page{number}" for number in range(100)))
    process = worker("titles", ITEMS_TO_REDIS="true", STORE_FLUSH_S="600", STORE_BATCH_DOCS="1000")
    pages.allow(30)
    eventually(lambda: pages.answered.total() == 30, 60)
    assert not client.exists("titles:items")
    stop(process, pages, eventually)
    assert client.llen("titles:items") == pages.answered.total() >= 30
    status = Controls(client, Keys.of("titles"), "the tests' Redis").status()
    assert (status.done, status.leased) == (pages.answered.total(), 0)


def test_a_list_that_nobody_reads_holds_up_the_crawl_and_loses_nothing(
    pages: Pages, worker: Start, ended: Callable[..., None], eventually: Callable[..., None], client: Redis
) -> None:
    client.rpush("titles:start_urls", *pages.urls(f"/page{number}" for number in range(60)))
    settings = {"ITEMS_TO_REDIS": "true", "ITEMS_LIST_MAX": "10", "STORE_BATCH_DOCS": "5", "STORE_CLOSE_S": "1"}
    first = worker("titles", **settings)
    eventually(lambda: pages.answered.total() == 60 and client.llen("titles:items") == 10, 60)
    first.stop()
    assert first.exit_code == 0, first.complaints(60)
    assert "titles:items is at ITEMS_LIST_MAX" in first.log.read_text()
    status = Controls(client, Keys.of("titles"), "the tests' Redis").status()
    assert status.done <= 10
    assert (status.done + status.queued, status.leased, status.unbalanced) == (60, 0, 0)
    taken: list[bytes] = []
    second = worker("titles", **settings)

    def has_ended() -> bool:
        taken.extend(client.lpop("titles:items", 10) or ())
        return second.exit_code is not None

    eventually(has_ended, 60)
    ended(second)
    taken += client.lrange("titles:items", 0, -1)
    assert {json.loads(text)["path"] for text in taken} == {f"/page{number}" for number in range(60)}
    assert len(taken) == 60 + 10 - status.done


def test_a_crawl_takes_few_commands(pages: Pages, worker: Start, ended: Callable[..., None], client: Redis) -> None:
    """Case R8."""
    client.rpush("titles:start_urls", *pages.urls(f"/page{number}" for number in range(400)))
    process = worker("titles", ITEMS_TO_REDIS="true", STORE_BATCH_DOCS="100")
    ended(process)
    assert process.stat("items_to_redis/pushed") == client.llen("titles:items") == 400
    assert process.stat("items_to_redis/batches") < 400 / 10


def test_without_the_setting_there_is_no_list(
    pages: Pages, worker: Start, ended: Callable[..., None], client: Redis
) -> None:
    client.rpush("titles:start_urls", f"{pages.origin}/")
    ended(worker("titles"))
    assert pages.paths == ["/"]
    assert not client.exists("titles:items")


SPIDER = """
import scrapy


class OldSpider(scrapy.Spider):
    name = "old"
    start_urls = ["ORIGIN/"]
    custom_settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "ITEM_PIPELINES": {"crawler.items_to_redis.ItemsToRedis": 300},
    }

    def parse(self, response):
        for number in range(25):
            yield {"number": number}
"""


def test_under_scrapy_rediss_own_scheduler_it_takes_the_place_of_its_pipeline(
    pages: Pages, redis_url: str, client: Redis, tmp_path: Path
) -> None:
    (tmp_path / "old.py").write_text(SPIDER.replace("ORIGIN", pages.origin))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "scrapy", "runspider", "old.py", "-s", f"REDIS_URL={redis_url}"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert numbers(client, "old:items") == [*range(25)]


@pytest.mark.parametrize("what", ["a key of another type", "a list that nobody reads"])
def test_a_worker_whose_items_wait_ends_when_it_is_to(
    pages: Pages, worker: Start, eventually: Callable[..., None], client: Redis, what: str
) -> None:
    """Pages whose items wait for room in a full buffer do not keep it from ending, for whatever reason it does."""
    pages.links = {"/": [f"/page{number}" for number in range(100)]}
    client.rpush("titles:start_urls", f"{pages.origin}/")
    settings = {"ITEMS_TO_REDIS": "true", "STORE_BATCH_DOCS": "20", "STORE_BUFFER_BYTES": "3000", "STORE_CLOSE_S": "1"}
    if what == "a key of another type":
        client.set("titles:items", "no list")
        process = worker("titles", **settings)
    else:
        client.rpush("titles:items", "{}")
        process = worker("titles", "-s", "CLOSESPIDER_PAGECOUNT=20", ITEMS_LIST_MAX="1", **settings)
    eventually(lambda: process.exit_code is not None, 60)
    assert process.exit_code == (1 if what == "a key of another type" else 0), process.complaints(60)
    status = Controls(client, Keys.of("titles"), "the tests' Redis").status()
    assert (status.done, status.leased, status.unbalanced) == (0, 0, 0)
