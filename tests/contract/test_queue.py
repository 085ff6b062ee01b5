"""The queues for scrapy-redis's own scheduler: one contract, and what each adds."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scrapy
from redis import Redis
from scrapy import Request
from scrapy.utils.test import get_crawler
from scrapy_redis import picklecompat
from scrapy_redis import queue as theirs

from crawler.errors import ConfigError, FrontierError
from crawler.queue import FifoQueue, LifoQueue, PriorityQueue

pytestmark = pytest.mark.every_redis

KEY = "shop:requests"
CLASSES = [FifoQueue, LifoQueue, PriorityQueue]

Queue = FifoQueue | LifoQueue | PriorityQueue


class ShopSpider(scrapy.Spider):
    name = "shop"

    def parse_item(self, response: Any) -> None: ...


@pytest.fixture
def spider() -> scrapy.Spider:
    crawler = get_crawler(ShopSpider)
    crawler.spider = crawler._create_spider()
    return crawler.spider


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def make(client: Redis, spider: scrapy.Spider) -> Callable[[type[Queue]], Queue]:
    return lambda kind: kind(client, spider, "%(spider)s:requests")


@pytest.fixture(params=CLASSES, ids=lambda kind: kind.__name__)
def queue(make: Callable[[type[Queue]], Queue], request: pytest.FixtureRequest) -> Queue:
    return make(request.param)


def page(name: str, **fields: Any) -> Request:
    return Request(f"http://shop.example/{name}", **fields)


def drain(queue: Queue) -> list[str]:
    found = []
    while request := queue.pop():
        found.append(request.url.rpartition("/")[2])
    return found


def stats(queue: Queue) -> dict[str, Any]:
    return {name: count for name, count in queue.spider.crawler.stats.get_stats().items() if name.endswith("/redis")}


# -- the contract ------------------------------------------------------------------------------------------------------


def test_s22_s17_a_request_comes_back_whole(queue: Queue, spider: ShopSpider) -> None:
    request = page(
        "p",
        callback=spider.parse_item,
        method="POST",
        body=b"\xff",
        headers={"X": "1"},
        cookies={"a": "b"},
        meta={"depth": 200, "t": (1, 2)},
        cb_kwargs={"sku": "ü"},
        priority=-3,
        dont_filter=True,
    )
    queue.push(request)
    back = queue.pop()
    assert back is not None
    assert back.to_dict(spider=spider) == request.to_dict(spider=spider)
    assert queue.pop() is None


def test_it_has_a_length_and_can_be_cleared(queue: Queue, client: Redis) -> None:
    assert len(queue) == 0
    for number in range(3):
        queue.push(page(str(number), priority=number))
    assert len(queue) == 3
    queue.pop()
    assert len(queue) == 2
    queue.clear()
    assert len(queue) == 0
    assert queue.pop() is None
    assert client.dbsize() == 0


def test_it_outlives_the_worker(queue: Queue, client: Redis, spider: scrapy.Spider) -> None:
    queue.push(page("p"))
    assert drain(type(queue)(client, spider, KEY)) == ["p"]


def test_l6_equal_requests_are_each_their_own(queue: Queue) -> None:
    for _ in range(1000):
        queue.push(page("p", dont_filter=True))
    assert len(drain(queue)) == 1000


def test_s6_an_ordinary_link_is_stored_as_callback_and_url(queue: Queue, client: Redis, spider: ShopSpider) -> None:
    queue.push(page("p", callback=spider.parse_item))
    (stored,) = client.scan_iter(_type="list")
    assert client.lindex(stored, 0) == b"parse_item--http://shop.example/p"


def test_s15_it_works_with_a_client_that_decodes(queue: Queue, redis_url: str, spider: ShopSpider) -> None:
    with Redis.from_url(redis_url, decode_responses=True) as decoding:
        same = type(queue)(decoding, spider, KEY)
        request = page("p", meta={"depth": 200, "b": b"\xff"})
        same.push(request)
        assert type(queue)(decoding, spider, KEY).pop().to_dict() == request.to_dict()


def test_s1_s2_what_can_not_be_stored_is_passed_over_alone(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.push(page("1"))
    queue.push(page("lambda", callback=lambda _: None))
    queue.push(page("lock", meta={"x": [threading.Lock()]}))
    odd = page("odd")
    odd.priority = 1.5  # type: ignore[assignment]
    queue.push(odd)
    queue.push(page("2"))
    assert sorted(drain(queue)) == ["1", "2"]
    assert stats(queue) == {"scheduler/refused/redis": 3}
    said = [record.getMessage() for record in caplog.records]
    assert "<GET http://shop.example/lambda>: callback" in said[0]
    assert "<GET http://shop.example/lock>: meta['x'][0] is a _thread.lock" in said[1]
    assert "<GET http://shop.example/odd>" in said[2]


def test_s3_l7_a_bad_seed_is_set_aside_alone_with_its_reason(
    queue: Queue, client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(8):
        queue.push(page(str(number)))
    (stored,) = client.scan_iter(_type="list")
    bad = [b"not-a-url", b"gone--http://h/", b"--http://h/\x09\x04", pickle.dumps({"url": "http://h/"})]
    for position, seed in enumerate(bad):
        client.rpush(stored, seed) if position % 2 else client.lpush(stored, seed)
    assert sorted(drain(queue)) == [str(number) for number in range(8)]
    assert stats(queue) == {"scheduler/dead/redis": 4}
    assert len(queue) == 0
    dead = client.lrange(f"{KEY}:dead", 0, -1)
    assert {entry.partition(b"\n")[2] for entry in dead} == set(bad)
    assert all(entry.startswith(b"seed ") for entry in dead)
    assert len(caplog.records) == 4


def test_i4_it_never_waits(queue: Queue, redis_url: str) -> None:
    # A client that gives up after a moment would raise if the server made it wait.
    queue.server = Redis.from_url(redis_url, socket_timeout=1)
    with queue.server:
        assert queue.pop(timeout=30) is None


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("other", [theirs.FifoQueue, theirs.LifoQueue, theirs.PriorityQueue])
def test_k1_k3_a_key_of_scrapy_rediss_own_queues_is_refused_and_kept(
    client: Redis, spider: scrapy.Spider, kind: type[Queue], other: Any
) -> None:
    other(client, spider, KEY).push(page("p"))
    with pytest.raises(FrontierError, match=r"shop:requests holds (a list|a zset|pickled requests), not what"):
        kind(client, spider, KEY)
    assert client.exists(KEY)


def test_k1_a_key_of_another_type_is_refused(client: Redis, spider: scrapy.Spider) -> None:
    client.sadd(KEY, "http://h/")
    for kind in CLASSES:
        with pytest.raises(FrontierError, match=f"holds a set, not what {kind.__name__} stores"):
            kind(client, spider, KEY)


def test_a_serializer_is_refused_in_words(client: Redis, spider: scrapy.Spider) -> None:
    with pytest.raises(ConfigError, match="SCHEDULER_SERIALIZER"):
        FifoQueue(client, spider, KEY, picklecompat)


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "order"), [(FifoQueue, "abc"), (LifoQueue, "cba"), (PriorityQueue, "abc")], ids=lambda value: str(value)
)
def test_the_order(make: Callable[[type[Queue]], Queue], kind: type[Queue], order: str) -> None:
    queue = make(kind)
    for name in "abc":
        queue.push(page(name))
    assert drain(queue) == list(order)


def test_o2_within_a_priority_the_oldest_comes_first(make: Callable[[type[Queue]], Queue]) -> None:
    queue = make(PriorityQueue)
    for name in ("10", "9", "8", "1", "2", "3"):
        queue.push(page(name))
    for name in ("high", "higher"):
        queue.push(page(name, priority=1))
    queue.push(page("low", priority=-1))
    assert drain(queue) == ["high", "higher", "10", "9", "8", "1", "2", "3", "low"]


def test_priorities_are_exact(make: Callable[[type[Queue]], Queue]) -> None:
    queue = make(PriorityQueue)
    priorities = [2**53, 2**53 - 1, -(2**53), 0, -1, 10**15 + 1, 10**15]
    for priority in priorities:
        queue.push(page("p", priority=priority))
    found = []
    while request := queue.pop():
        found.append(request.priority)
    assert found == sorted(priorities, reverse=True)


def test_a_worker_that_pushes_and_one_that_pops_share_the_order(
    make: Callable[[type[Queue]], Queue], redis_url: str, spider: scrapy.Spider
) -> None:
    ours = make(PriorityQueue)
    with Redis.from_url(redis_url) as client:
        others = PriorityQueue(client, spider, KEY)
        others.push(page("b", priority=5))
        ours.push(page("a", priority=6))
        assert [others.pop().url[-1], ours.pop().url[-1]] == ["a", "b"]  # type: ignore[union-attr]
