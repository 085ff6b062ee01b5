"""A page's links in one object become the very seeds that a Request for each would."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from crawler import seeds
from crawler.errors import NotDataError
from crawler.fingerprints import RequestFingerprinter
from crawler.links import Expander, Links


class LinksSpider(Spider):
    name = "links"

    def parse_item(self, response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...


URLS = [
    "http://a.example/1",
    "http://a.example:80/2",
    "http://b.example/3?b=1&a=2#part",
    "https://[::1]:8443/é",
    "http://A.example/4",
    "http://a.example/5?x=1",
]


@pytest.fixture
def spider() -> LinksSpider:
    return LinksSpider()


def _expander(spider: Spider, **settings: Any) -> Expander:
    crawler = Crawler(LinksSpider, Settings(settings))
    crawler.request_fingerprinter = RequestFingerprinter()
    return Expander(crawler, spider)


@pytest.mark.parametrize(
    "shared",
    [
        {},
        {"meta": {"depth": 3}},
        {"meta": {"depth": 3, "tag": "x"}, "cb_kwargs": {"domains": ["a.example"]}},
        {"headers": {"Referer": "http://a.example/"}},
        {"cookies": {"a": "b"}, "flags": ["x"], "encoding": "latin-1"},
        {"method": "POST", "body": b"same"},
    ],
)
def test_links_become_the_seeds_of_requests(spider: LinksSpider, shared: dict[str, Any]) -> None:
    links = Links(URLS, callback=spider.parse_item, errback=spider.failed, **shared)
    requests = [Request(url, callback=spider.parse_item, errback=spider.failed, **shared) for url in URLS]
    fingerprint = RequestFingerprinter().fingerprint
    expected = [(fingerprint(request), seeds.encode(request, spider, priority=False)) for request in requests]
    assert list(_expander(spider).expand(links)) == expected


def test_allowed_domains_and_length_are_applied_to_each_link(spider: LinksSpider) -> None:
    spider.allowed_domains = ["a.example", "::1"]
    long = "http://a.example/" + "x" * 60
    found = list(_expander(spider, URLLENGTH_LIMIT=50).expand(Links([*URLS, long, "http://sub.a.example/6"])))
    urls = [seeds.decode(seed, spider).url for _, seed in found]
    assert urls == [
        "http://a.example/1",
        "http://a.example:80/2",
        "https://[::1]:8443/%C3%A9",
        "http://a.example/4",
        "http://a.example/5?x=1",
        "http://sub.a.example/6",
    ]


def test_what_is_no_address_is_left_out_alone(spider: LinksSpider) -> None:
    found = list(_expander(spider).expand(Links(["not-a-url", "http://a.example/1", "http://[bad/"])))
    assert [seed for _, seed in found][:1] == [b"--http://a.example/1"]


def test_what_cannot_be_stored_is_refused_by_name(spider: LinksSpider) -> None:
    """Case S1."""
    with pytest.raises(NotDataError, match="callback"):
        list(_expander(spider).expand(Links(URLS, callback=lambda _: None)))


def test_middlewares_may_replace_it_as_any_request(spider: LinksSpider) -> None:
    links = Links(URLS, callback=spider.parse_item).replace(priority=7, meta={"depth": 2})
    assert isinstance(links, Links)
    assert (links.urls, links.priority, links.meta) == (URLS, 7, {"depth": 2})


def test_no_links_are_no_seeds(spider: LinksSpider) -> None:
    assert list(_expander(spider).expand(Links([]))) == []
