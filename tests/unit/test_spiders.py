"""The spiders that ship: what they give of a page, and where they go from there."""

from __future__ import annotations

import inspect
from decimal import Decimal
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response

from bench.site import SiteConfig, expected_products
from bench.site.addresses import Addresses
from bench.site.pages import Pages
from bench.site.shop import Kind, Shop
from bench.site.shop import Page as SitePage
from crawler.items import Page, Product
from crawler.links import Links
from crawler.schema_org import things
from crawler.spiders.shop import ShopSpider
from crawler.spiders.site import SiteSpider

LINKS = '<a href="/a">a</a><a href="http://sub.site.example/b">b</a><a href="http://other.example/c">c</a>'


def page_at(url: str, body: str | bytes = LINKS, *, asked: str = "", **meta: Any) -> HtmlResponse:
    if asked:
        meta |= {"redirect_urls": [asked]}
    body = body if isinstance(body, bytes) else body.encode()
    return HtmlResponse(url, body=body, encoding="utf-8", request=Request(url, meta=meta))


def followed(spider: Spider, response: Response, **arguments: Any) -> dict[str, Any]:
    parse: Any = spider.parse
    asked_for = [links for links in parse(response, **arguments) if isinstance(links, Links)]
    return {url: links.cb_kwargs for links in asked_for for url in links.urls}


async def test_a_spider_begins_where_it_is_told() -> None:
    spider = SiteSpider(url="http://site.example/ http://other.example/a,b")
    assert [request.url async for request in spider.start()] == ["http://site.example/", "http://other.example/a,b"]
    assert [request async for request in SiteSpider().start()] == []


@pytest.mark.parametrize("spider", [SiteSpider, ShopSpider])
def test_a_spider_takes_whatever_arguments_come(spider: type[Spider]) -> None:
    """Case M10: scrapyd passes _job."""
    assert spider(_job="1").__dict__["_job"] == "1"


def test_the_spiders_know_nothing_of_the_frontier() -> None:
    for spider in (SiteSpider, ShopSpider):
        assert spider.__mro__[-3:-1][0] is Spider
        assert "frontier" not in inspect.getsource(inspect.getmodule(spider) or spider)


def test_one_item_a_page() -> None:
    body = '<html lang="en"><title>T</title><meta name="description" content="D"><h1>H</h1>' + LINKS
    items = [item for item in SiteSpider().parse(page_at("http://site.example/", body)) if isinstance(item, Page)]
    assert items == [Page("http://site.example/", "T", "D", "en", ["H"], 3)]


def test_a_seed_stays_on_its_host_and_below() -> None:
    links = followed(SiteSpider(), page_at("http://site.example/"))
    assert list(links) == ["http://site.example/a", "http://sub.site.example/b"]


def test_a_link_carries_only_what_it_would_not_take_for_granted() -> None:
    links = followed(SiteSpider(), page_at("http://site.example/"))
    assert links == {"http://site.example/a": {}, "http://sub.site.example/b": {"domains": ["site.example"]}}


def test_any_worker_can_go_on_with_a_link() -> None:
    """The domains that a seed gave rise to come back with the link, in a worker that was told nothing."""
    response = page_at("http://sub.site.example/b", '<a href="http://site.example/z">z</a>', depth=1)
    assert followed(SiteSpider(), response, domains=["site.example"]) == {"http://site.example/z": {}}
    assert followed(SiteSpider(), response) == {}


def test_allowed_domains_are_the_users_choice() -> None:
    spider = SiteSpider(allowed_domains="SITE.example, other.example")
    assert spider.allowed_domains == ["site.example", "other.example"]
    assert list(followed(spider, page_at("http://site.example/"))) == [
        "http://site.example/a",
        "http://sub.site.example/b",
        "http://other.example/c",
    ]
    assert followed(spider, page_at("http://third.example/")) == {}


def test_a_seed_may_be_redirected_to_its_real_address() -> None:
    response = page_at("http://site.example/", asked="http://old.example/")
    domains = {"domains": ["site.example", "old.example"]}
    assert followed(SiteSpider(), response) == {
        "http://site.example/a": domains,
        "http://sub.site.example/b": domains,
    }


def test_a_link_that_is_redirected_elsewhere_ends_there() -> None:
    response = page_at("http://elsewhere.example/", asked="http://site.example/out", depth=2)
    assert list(SiteSpider().parse(response)) == []


@pytest.mark.parametrize("spider", [SiteSpider, ShopSpider])
def test_what_is_no_html_gives_nothing(spider: type[SiteSpider]) -> None:
    response = Response("http://site.example/f", body=b"\0\1", request=Request("http://site.example/f"))
    assert list(spider().parse(response)) == []


def test_every_product_of_the_sample_site() -> None:
    config = SiteConfig(port=8000, products=60)
    shop = Shop(config)
    addresses = Addresses(shop)
    pages = Pages(shop, addresses)
    found = []
    for page in shop.pages():
        response = page_at(addresses.url(page), pages.html(page))
        found += [item for item in ShopSpider().parse(response) if isinstance(item, Product)]
    assert {item.sku: item for item in found} == {
        p.sku: Product(p.sku, p.title, p.price, p.currency, p.availability, p.url)
        for p in expected_products(config).values()
    }
    assert len(found) == config.products


def test_microdata_says_the_same_as_json_ld() -> None:
    shop = Shop(SiteConfig(port=8000, products=60))
    addresses = Addresses(shop)
    page = SitePage(Kind.PRODUCT, 7)
    html = Pages(shop, addresses).html(page)
    assert html.count(b"application/ld+json") == 1
    both, microdata = (
        [item for item in ShopSpider().parse(page_at(addresses.url(page), body)) if isinstance(item, Product)]
        for body in (html, html.replace(b"application/ld+json", b"text/plain"))
    )
    assert both == microdata
    assert len(both) == 1


def products_of(json_ld: str) -> list[Product]:
    body = f'<script type="application/ld+json; charset=utf-8">{json_ld}</script>'
    return [i for i in ShopSpider().parse(page_at("http://shop.example/", body)) if isinstance(i, Product)]


@pytest.mark.parametrize(
    ("json_ld", "expected"),
    [
        ('{"@type": "Product", "sku": 12, "offers": {"price": 9.90}}', ("12", Decimal("9.90"), None)),
        (
            '{"@type": ["Product", "Thing"], "sku": "a", "offers": [{"price": "1,50"}, {}]}',
            ("a", Decimal("1.50"), None),
        ),
        ('{"@graph": [{"@type": "https://schema.org/Product", "productID": "b"}]}', ("b", None, None)),
        ('[{"@type": "WebPage", "mainEntity": {"@type": "schema:Product", "mpn": "c"}}]', ("c", None, None)),
        ('{"@type": "Product", "sku": "", "gtin13": "d", "offers": {"lowPrice": 1}}', ("d", Decimal(1), None)),
        ('{"@type": "Product", "sku": "e", "offers": {"price": "ask us"}}', ("e", None, None)),
        ('{"@type": "Product", "offers": {"availability": "PreOrder"}}', (None, None, "PreOrder")),
        ('{"@type": "Product", "sku": "f", "name": "line\nbreak"}', ("f", None, None)),
    ],
)
def test_the_shapes_that_json_ld_comes_in(json_ld: str, expected: tuple[Any, ...]) -> None:
    assert [(p.sku, p.price, p.availability) for p in products_of(json_ld)] == [expected]


@pytest.mark.parametrize(
    "json_ld",
    [
        "",
        "{",
        "null",
        "7",
        '["Product"]',
        '{"@type": "Product"',
        '{"@type": 5}',
        '{"@type": "ItemList", "itemListElement": [{"@type": "Product", "sku": "only mentioned"}]}',
        "[" * 100_000,
        "1" * 10_000_000,
    ],
    ids=range(10),
)
def test_json_ld_without_a_product_gives_none(json_ld: str) -> None:
    assert products_of(json_ld) == []


def test_microdata_without_end_is_left_alone() -> None:
    nested = '<div itemscope itemprop="x">' * 3000
    response = page_at("http://shop.example/", f'<div itemscope itemtype="http://schema.org/Product">{nested}')
    assert len(things(response, "Product")) == 1
    flat = page_at("http://shop.example/", '<div itemscope itemtype="http://schema.org/Product">' + "<b>" * 3000)
    assert len(things(flat, "Product")) == 1
