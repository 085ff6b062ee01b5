"""The seed that is stored with a page: the one at hand, or the request as it was before its download."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import JsonRequest, Response

from crawler import seeds
from crawler.errors import NotDataError
from crawler.storage.origin import seed_of


class ShopSpider(Spider):
    name = "shop"

    def parse_item(self, response: Response) -> None: ...


SPIDER = ShopSpider()
AT_HAND = b"parse_item--http://shop.example/p/1"


def crawler(scheduler: object = None) -> Any:
    return SimpleNamespace(spider=SPIDER, engine=SimpleNamespace(scheduler=scheduler))


def knowing(seed: bytes | None) -> Any:
    return crawler(SimpleNamespace(seed_of=lambda _: seed))


def downloaded(request: Request, **meta: Any) -> Request:
    """Do to a request what Scrapy's downloader does."""
    request.meta.update({"download_timeout": 180.0, "download_slot": "shop.example", "download_latency": 0.1, **meta})
    for name in ("User-Agent", "Accept", "Accept-Encoding", "Cookie"):
        request.headers[name] = "x"
    return request


def test_the_scheduler_s_own_seed_is_taken() -> None:
    request = downloaded(Request("http://shop.example/", SPIDER.parse_item))
    assert seed_of(request, knowing(AT_HAND)) == AT_HAND


@pytest.mark.parametrize("scheduler", [crawler(), knowing(None)], ids=["of another kind", "that does not know it"])
def test_without_one_it_is_the_request_as_the_spider_made_it(scheduler: Any) -> None:
    request = downloaded(Request("http://shop.example/p/1", SPIDER.parse_item, meta={"depth": 2}))
    assert seed_of(request, scheduler) == seeds.encode(
        Request("http://shop.example/p/1", SPIDER.parse_item, meta={"depth": 2}), SPIDER
    )
    assert request.meta["download_slot"] == "shop.example", "the request itself stays as it is"
    assert request.headers["User-Agent"] == b"x"


def test_a_request_of_another_class_comes_back_as_it_was() -> None:
    request = JsonRequest(
        "http://shop.example/api",
        SPIDER.parse_item,
        data={"a": [1]},
        headers={"X-Own": "1"},
        meta={"own": (1, 2), "redirect_urls": ["http://shop.example/old"]},
        cb_kwargs={"shelf": 7},
    )
    stored = seeds.decode(seed_of(downloaded(request), crawler()), SPIDER)
    assert type(stored) is JsonRequest
    assert (stored.method, stored.body, stored.callback) == ("POST", b'{"a": [1]}', SPIDER.parse_item)
    assert (stored.meta, stored.cb_kwargs) == (
        {"own": (1, 2), "redirect_urls": ["http://shop.example/old"]},
        {"shelf": 7},
    )
    assert stored.headers["X-Own"] == b"1"
    assert not {"User-Agent", "Accept-Encoding", "Cookie"} & set(stored.headers.to_unicode_dict())


@pytest.mark.parametrize("times", ["retry_times", "redirect_times"])
def test_what_was_sent_before_carries_nothing_of_it(times: str) -> None:
    """The seed at hand has the cookies and the counts of the first time in it."""
    request = downloaded(Request("http://shop.example/p/1", SPIDER.parse_item), **{times: 1, "redirect_ttl": 19})
    assert seed_of(request, knowing(seeds.encode(request, SPIDER))) == AT_HAND


def test_a_request_that_is_no_data_has_none() -> None:
    with pytest.raises(NotDataError, match="is no method of the spider"):
        seed_of(Request("http://shop.example/", ShopSpider().parse_item), crawler())
