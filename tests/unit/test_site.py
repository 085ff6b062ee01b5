"""The sample site's answer to "what must a crawl store?" is right: an independent crawl of it finds the same."""

import http.client
import json
import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsel import Selector
from protego import Protego
from w3lib.url import canonicalize_url

from bench.site import (
    SPELLINGS,
    SiteConfig,
    SiteProcess,
    canonical_url,
    expected_pages,
    expected_products,
    iterate_pages,
    page_count,
)
from bench.site.addresses import Addresses
from bench.site.answers import Request, Site
from bench.site.config import NAVIGATION_LINKS
from bench.site.links import Links
from bench.site.shop import Kind, Page, Shop
from bench.site.words import CATEGORY_NAMES, PRODUCT_NAMES

Fetch = Callable[[str], tuple[int, dict[str, str], str]]

SHOP = SiteConfig(port=8123, products=300, categories=9, host_names=("shop.test", "a.shop.test", "outlet.test"))


@dataclass
class Crawl:
    """What a crawler stored (address as fetched, body) and what it met on its way."""

    stored: list[tuple[str, str]] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    link_counts: set[int] = field(default_factory=set)

    @property
    def pages(self) -> set[str]:
        return {identity(url) for url, _ in self.stored}


def identity(url: str) -> str:
    """w3lib's canonical form without an explicit default port: on its own, not bench.site's `canonical_url`."""
    parts = urlsplit(canonicalize_url(url))
    return parts._replace(netloc=parts.hostname or "" if parts.port == 80 else parts.netloc).geturl()


def crawl(
    fetch: Fetch,
    start: str,
    *,
    polite: bool = True,
    redirects: bool = True,
    retries: int = 4,
    same: Callable[[str], str] = identity,
) -> Crawl:
    """Crawl breadth first, one address after another, as well or as badly as told."""
    result = Crawl()
    robots: dict[str, Protego] = {}
    waiting, seen = deque([start]), {same(start)}

    def discover(url: str) -> None:
        if same(url) not in seen:
            seen.add(same(url))
            waiting.append(url)

    while waiting:
        url = waiting.popleft()
        root = urljoin(url, "/robots.txt")
        if root not in robots:
            robots[root] = Protego.parse(fetch(root)[2])
        if polite and not robots[root].can_fetch(url, "tester"):
            continue
        for _ in range(1 + retries):
            status, headers, body = fetch(url)
            result.statuses[status] = result.statuses.get(status, 0) + 1
            if status not in (429, 500, 503):
                break
        if status in (301, 302) and redirects:
            discover(urljoin(url, headers["location"]))
        if status == 200:
            result.stored.append((url, body))
            links = Selector(body).css("a::attr(href)").getall()
            result.link_counts.add(len(links))
            for link in links:
                discover(urljoin(url, link))
    return result


def direct(site: Site) -> Fetch:
    """Fetch by calling the site, without a socket between."""

    def fetch(url: str) -> tuple[int, dict[str, str], str]:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        request = Request("GET", parts.hostname or "", target)
        response = site.answer(request)
        site.traffic.end(request.host)
        lines = [line.partition(": ") for line in response.headers.splitlines()]
        return response.status, {name.lower(): value for name, _, value in lines}, response.body.decode()

    return fetch


@pytest.fixture(scope="module")
def found() -> Crawl:
    """Give a correct crawl of SHOP."""
    return crawl(direct(Site(SHOP)), SHOP.start_url)


@pytest.mark.parametrize("port", [80, 8123])
def test_a_correct_crawl_finds_exactly_the_expected_pages(port: int) -> None:
    config = replace(SHOP, port=port)
    found = crawl(direct(Site(config)), config.start_url)
    assert found.pages == expected_pages(config)
    assert len(found.stored) == len(found.pages) == page_count(config)
    assert found.link_counts == {config.links_per_page}
    assert {urlsplit(url).hostname for url in found.pages} == set(config.host_names)
    assert {200, 301, 302, 404, 500} == set(found.statuses)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        SiteConfig,
        products=st.integers(1, 60),
        categories=st.integers(1, 40),
        seed=st.integers(0, 1000),
        links_per_page=st.integers(20, 40),
        host_names=st.sampled_from([("one.test",), ("a.test", "b.test"), tuple(f"h{n}.test" for n in range(11))]),
        port=st.sampled_from([80, 8123]),
        moved_share=st.sampled_from([0, 0.1, 1]),
        missing_share=st.sampled_from([0, 0.1]),
        private_share=st.sampled_from([0, 0.1]),
        failing_share=st.sampled_from([0, 0.1, 1]),
        spelling_share=st.sampled_from([0, 0.3, 1]),
        spellings=st.sets(st.sampled_from(SPELLINGS)).map(lambda names: tuple(sorted(names))),
    )
)
def test_the_expected_pages_are_right_for_every_configuration(config: SiteConfig) -> None:
    found = crawl(direct(Site(config)), config.start_url)
    assert found.pages == expected_pages(config)
    assert len(found.stored) == page_count(config)
    assert found.link_counts == {config.links_per_page}


@pytest.mark.parametrize(
    ("products", "categories", "hosts"), [(20_000, 1, 1), (1, 3000, 2), (3000, 30, 500), (191, 3, 3), (192, 3, 3)]
)
def test_navigation_and_listings_alone_lead_everywhere_in_few_steps(products: int, categories: int, hosts: int) -> None:
    names = tuple(f"h{number}.test" for number in range(hosts))
    config = replace(SHOP, products=products, categories=categories, host_names=names)
    shop = Shop(config)
    links = Links(shop, Addresses(shop))
    steps, seen = 0, {Page(Kind.HOME, 0)}
    newest = seen
    while newest:
        found = set[Page]()
        for page in newest:
            navigation, listing, _ = links.of(page)
            assert len(navigation) <= NAVIGATION_LINKS
            found |= {target for target, _ in navigation + listing}
        moved = {Page(Kind.PRODUCT, number) for kind, number, _ in found if kind is Kind.REDIRECT}
        newest = {page for page in found if page.kind is not Kind.REDIRECT} | moved
        newest -= seen
        seen |= newest
        steps += 1
    assert seen == set(shop.pages())
    assert steps <= 5 + math.log2(hosts + categories + shop.parts(0))


def test_pages_are_counted_without_going_through_them() -> None:
    for categories in range(1, 15):
        for products in range(1, 260, 3):
            config = replace(SHOP, products=products, categories=categories)
            assert page_count(config) == sum(1 for _ in iterate_pages(config)), config


def test_the_served_site_is_the_computed_one() -> None:
    with SiteProcess(SiteConfig(port=0, products=150, categories=5, slow_s=0.001)) as site:
        connections: dict[str, http.client.HTTPConnection] = {}

        def fetch(url: str) -> tuple[int, dict[str, str], str]:
            parts = urlsplit(url)
            connection = connections.setdefault(
                parts.netloc, http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
            )
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return response.status, headers, response.read().decode()

        found = crawl(fetch, site.config.start_url)
        for connection in connections.values():
            connection.close()
        served = site.stats()["by_status"]
        assert found.pages == expected_pages(site.config)
        # Another process computes the same bytes.
        here = crawl(direct(Site(site.config)), site.config.start_url)
    assert here.stored == found.stored
    robots = len(site.config.host_names)
    assert served == {str(status): count + robots * (status == 200) for status, count in found.statuses.items()}


# Each trap is there: who walks into it does not end up with the expected pages.


def test_without_redirects_pages_are_lost() -> None:
    found = crawl(direct(Site(SHOP)), SHOP.start_url, redirects=False)
    assert found.pages < expected_pages(SHOP)


def test_without_retries_pages_are_lost() -> None:
    found = crawl(direct(Site(SHOP)), SHOP.start_url, retries=0)
    assert found.pages < expected_pages(SHOP)


def test_without_robots_txt_too_many_pages_are_found() -> None:
    found = crawl(direct(Site(SHOP)), SHOP.start_url, polite=False)
    extra = found.pages - expected_pages(SHOP)
    assert extra
    assert all("/private/" in url for url in extra)
    assert expected_pages(SHOP) < found.pages


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_without_canonical_addresses_pages_are_stored_twice(spelling: str) -> None:
    config = replace(SHOP, port=80, spellings=(spelling,))
    found = crawl(direct(Site(config)), config.start_url, same=lambda url: url)
    assert found.pages == expected_pages(config)
    assert len(found.stored) > len(found.pages)


def test_every_name_has_two_spellings_of_one_address() -> None:
    for name in PRODUCT_NAMES + CATEGORY_NAMES:
        assert name.slug != name.other_slug
        assert canonicalize_url(f"http://h/{name.other_slug}") == f"http://h/{name.slug}"


def test_w3lib_alone_does_not_see_through_an_explicit_default_port() -> None:
    config = replace(SHOP, port=80)
    found = crawl(direct(Site(config)), config.start_url, same=canonicalize_url)
    assert len(found.stored) > len(found.pages)
    without = replace(config, spellings=("query", "fragment", "encoding", "host"))
    assert len(crawl(direct(Site(without)), config.start_url, same=canonicalize_url).stored) == page_count(config)


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.test/product/1?b=1&a=2#x",
        "http://SHOP.test:80/%c3%a9?q=a%20b",
        "http://shop.test:",
        "http://shop.test:8080/%7e",
        "https://shop.test:443/a?port=:80",
        "http://shop.test:8080/x:80/",
    ],
)
def test_canonical_url_is_idempotent_and_drops_only_the_implied_port(url: str) -> None:
    canonical = canonical_url(url)
    assert canonical_url(canonical) == canonical
    assert urlsplit(canonical).port == (8080 if ":8080" in url else None)
    assert urlsplit(canonical).path == urlsplit(canonicalize_url(url)).path


def test_canonical_url_agrees_with_the_crawl_above(found: Crawl) -> None:
    assert all(canonical_url(url) == identity(url) for url, _ in found.stored)


def test_products_are_read_from_their_pages_in_both_ways(found: Crawl) -> None:
    expected = expected_products(SHOP)
    read = {}
    for url, body in found.stored:
        page = Selector(body)
        for product in page.css("[itemtype='https://schema.org/Product']"):
            linked = json.loads(page.css("script[type='application/ld+json']::text").get() or "")
            sku = product.css("[itemprop=sku]::text").get() or ""
            read[sku] = (
                product.css("h1[itemprop=name]::text").get(),
                Decimal(product.css("[itemprop=price]::attr(content)").get() or ""),
                product.css("[itemprop=priceCurrency]::attr(content)").get(),
                (product.css("[itemprop=availability]::attr(href)").get() or "").removeprefix("https://schema.org/"),
                page.css("html::attr(lang)").get(),
                identity(url),
            )
            offer = linked["offers"]
            assert (linked["sku"], linked["name"], Decimal(offer["price"])) == (sku, *read[sku][:2])
            assert offer["priceCurrency"] == read[sku][2]
            assert offer["availability"].endswith(f"/{read[sku][3]}")
    assert read == {sku: tuple(product)[1:] for sku, product in expected.items()}
    assert len(expected) == SHOP.products
    assert {product.availability for product in expected.values()} == {"InStock", "OutOfStock", "PreOrder"}


def test_pages_are_complete_and_differ(found: Crawl) -> None:
    facts = []
    for _, body in found.stored:
        page = Selector(body)
        title, description = page.css("title::text").get(), page.css("meta[name=description]::attr(content)").get()
        assert title
        assert description
        assert page.css("h1::text").getall() == [title.split(" | ")[0]]
        facts.append((page.css("html::attr(lang)").get(), title))
    assert {language for language, _ in facts} == {"en", "de", "fr", "es"}
    assert len({title for _, title in facts}) == len(found.stored)


def test_pages_are_padded_to_size() -> None:
    config = replace(SHOP, products=40, page_bytes=20_000)
    stored = crawl(direct(Site(config)), config.start_url).stored
    assert {len(body.encode()) for _, body in stored} == {20_000}
    assert len({re.sub(r"<(title|h1).*?</", "", body)[-9000:] for _, body in stored}) == len(stored)


def test_millions_of_products_cost_nothing_to_know() -> None:
    config = replace(SHOP, products=100_000_000, categories=5000, failing_share=0)
    assert page_count(config) == 3 + 5000 * 1250 + 100_000_000
    fetch = direct(Site(config))
    home = Selector(fetch(config.start_url)[2])
    statuses = {fetch(urljoin(config.start_url, link))[0] for link in home.css("a::attr(href)").getall()}
    assert statuses <= {200, 301, 302, 404}


def test_only_spellings_of_an_address_find_a_page() -> None:
    fetch = direct(Site(replace(SHOP, failing_share=0)))
    urls = sorted(expected_pages(SHOP) - {f"{origin}/" for origin in SHOP.origins})
    for url in urls[::7]:
        assert fetch(url)[0] == 200
        beyond = re.sub(r"page=(\d+)", r"page=9\1", url)
        for garbled in (
            url[:-1],
            url + "x",
            beyond,
            url.split("?")[0],
            url.replace("//a.shop", "//shop"),
            url + "&x=1",
        ):
            assert garbled == url or fetch(garbled)[0] == 404, garbled


def test_another_seed_is_another_shop() -> None:
    other = replace(SHOP, seed=2)
    assert expected_products(SHOP) != expected_products(other)
    body = direct(Site(SHOP))(SHOP.start_url)[2]
    assert body == direct(Site(SHOP))(SHOP.start_url)[2]
    assert body != direct(Site(other))(SHOP.start_url)[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("products", 0),
        ("categories", 0),
        ("links_per_page", 19),
        ("host_names", ()),
        ("host_names", ("a", "A")),
        ("port", 65536),
        ("spellings", ("upside-down",)),
        ("slow_share", 1.5),
        ("slow_s", -1.0),
        ("throttled_host", "elsewhere.test"),
        ("throttle_status", 500),
    ],
)
def test_a_value_without_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}="):
        SiteConfig(**{name: value})


def test_addresses_are_not_known_before_the_port_is() -> None:
    with pytest.raises(ValueError, match="not chosen yet"):
        expected_pages(SiteConfig(port=0))
    assert SiteConfig(port=0, public_port=80, host_names=("shop",)).start_url == "http://shop/"
