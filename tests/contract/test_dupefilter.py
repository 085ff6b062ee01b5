"""The filter for scrapy-redis's own scheduler, or Scrapy's: what it adds to the dedup that the frontier has too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scrapy
from redis import Redis
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler

from crawler.dupefilter import BloomDupeFilter
from crawler.errors import ConfigError, FrontierError

pytestmark = pytest.mark.every_redis

KEY = "shop:dupefilter"

Make = Callable[..., BloomDupeFilter]


class ByArgument(RequestFingerprinter):
    """A fingerprinter as the ones of browser plug-ins: equal URLs differ by what stands in the meta."""

    def fingerprint(self, request: Request) -> bytes:
        return super().fingerprint(request) + str(request.meta.get("script")).encode()


@pytest.fixture
def make(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Give the function that makes the filter of a worker with the settings named."""
    for name in ("DEDUP", "DEDUP_CAPACITY", "DEDUP_ERROR_RATE"):
        monkeypatch.delenv(name, raising=False)
    made: list[BloomDupeFilter] = []

    def make(**settings: Any) -> BloomDupeFilter:
        made.append(BloomDupeFilter.from_spider(spider_of(redis_url, **settings)))
        return made[-1]

    yield make
    for dupefilter in made:
        dupefilter.server.close()


def spider_of(redis_url: str, **settings: Any) -> scrapy.Spider:
    crawler: Crawler = get_crawler(settings_dict={"REDIS_URL": redis_url, "DEDUP_CAPACITY": 1000, **settings})
    crawler.spider = crawler._create_spider("shop")
    return crawler.spider


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


def page(name: str, **fields: Any) -> Request:
    return Request(f"http://shop.example/{name}", **fields)


@pytest.mark.parametrize("mode", ["bloom", "exact"])
def test_d3_d8_a_request_is_new_once(make: Make, mode: str) -> None:
    dupefilter = make(DEDUP=mode)
    assert [dupefilter.request_seen(page(name)) for name in "abab"] == [False, False, True, True]


def test_two_spellings_of_one_address_are_one_request(make: Make) -> None:
    dupefilter = make()
    assert not dupefilter.request_seen(page("?a=1&b=2"))
    assert dupefilter.request_seen(page("?b=2&a=1#f"))
    assert not dupefilter.request_seen(page("?a=1&b=2", method="POST"))


def test_d9_two_workers_share_it(make: Make) -> None:
    one, two = make(), make()
    assert not one.request_seen(page("a"))
    assert two.request_seen(page("a"))


def test_d11_d12_the_crawlers_own_fingerprinter_counts(make: Make) -> None:
    dupefilter = make(REQUEST_FINGERPRINTER_CLASS=ByArgument)
    assert not dupefilter.request_seen(page("a", meta={"script": 1}))
    assert not dupefilter.request_seen(page("a", meta={"script": 2}))
    assert dupefilter.request_seen(page("a", meta={"script": 1}))


def test_d13_off_switches_it_off(make: Make, client: Redis) -> None:
    dupefilter = make(DEDUP="off")
    assert not dupefilter.request_seen(page("a"))
    assert not dupefilter.request_seen(page("a"))
    assert client.dbsize() == 0


def test_s15_it_works_with_a_client_that_decodes(make: Make) -> None:
    dupefilter = make(REDIS_DECODE_RESPONSES=True)
    assert [dupefilter.request_seen(page("a")) for _ in range(2)] == [False, True]


def test_clear_forgets_all_and_leaves_nothing(make: Make, client: Redis) -> None:
    dupefilter = make()
    dupefilter.request_seen(page("a"))
    dupefilter.clear()
    assert client.dbsize() == 0
    assert not dupefilter.request_seen(page("a"))


def test_k3_the_set_of_scrapy_rediss_own_filter_is_refused_at_the_start_and_kept(make: Make, client: Redis) -> None:
    client.sadd(KEY, "0123456789abcdef0123456789abcdef01234567")
    with pytest.raises(FrontierError, match="shop:dupefilter holds a set of which shop:dupefilter:meta says nothing"):
        make()
    assert client.scard(KEY) == 1


def test_d5_other_settings_are_refused_at_the_start(make: Make) -> None:
    make().request_seen(page("a"))
    with pytest.raises(
        FrontierError,
        match=r"was made for .* capacity=1000 .* can't serve .* capacity=2000.*delete shop:dupefilter and",
    ):
        make(DEDUP_CAPACITY=2000)
    assert make().request_seen(page("a"))


def test_a_wrong_setting_is_refused_by_its_name(make: Make) -> None:
    with pytest.raises(ConfigError, match="DEDUP_ERROR_RATE=5"):
        make(DEDUP_ERROR_RATE=5)


def test_the_key_is_scrapy_rediss_setting(make: Make, client: Redis) -> None:
    make(SCHEDULER_DUPEFILTER_KEY="{%(spider)s}:seen").request_seen(page("a"))
    assert all(key.startswith(b"{shop}:seen") for key in client.scan_iter())


def test_d2_what_is_filtered_is_counted_and_the_first_is_logged(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    spider = spider_of(redis_url)
    dupefilter = BloomDupeFilter.from_spider(spider)
    with caplog.at_level("DEBUG"):
        for _ in range(3):
            dupefilter.log(page("a"), spider)
    dupefilter.server.close()
    assert spider.crawler.stats.get_value("dupefilter/filtered") == 3
    said = [record.getMessage() for record in caplog.records if record.name == "scrapy.dupefilters"]
    assert len(said) == 1
    assert said[0].startswith("Filtered duplicate request: <GET http://shop.example/a> - no more duplicates will be")


def test_v3_under_scrapys_own_scheduler_it_goes_with_the_queue(redis_url: str, client: Redis) -> None:
    dupefilter = BloomDupeFilter.from_crawler(spider_of(redis_url).crawler)
    dupefilter.open()
    assert not dupefilter.request_seen(page("a"))
    dupefilter.close("finished")
    dupefilter.server.close()
    assert client.dbsize() == 0
