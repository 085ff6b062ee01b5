"""What producers write becomes requests, or is refused in words; one bad entry says nothing of the others."""

import json
from typing import Any

import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.settings import Settings

from crawler.config import Config
from crawler.errors import BadSeedError, ConfigError
from crawler.intake import start_keys_of
from crawler.start_urls import parse_start


class ShopSpider(scrapy.Spider):
    name = "shop"

    def parse_item(self, response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...


SPIDER = ShopSpider()


def one(entry: bytes | str) -> Request:
    (request,) = parse_start(entry, SPIDER)
    return request


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("http://h/p", "http://h/p"),
        ("  http://h/p\t\r\n", "http://h/p"),
        ("https://h/?a=1&b=2#f", "https://h/?a=1&b=2#f"),
        ("http://h/a--b", "http://h/a--b"),
        ("http://[::1]:8000/", "http://[::1]:8000/"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://h/" + "x" * 10_000, "http://h/" + "x" * 10_000),
        ("HTTPS://h/", "https://h/"),
        ('{"url": "http://h/p"}', "http://h/p"),
    ],
)
@pytest.mark.parametrize("as_type", [str, str.encode], ids=["str", "bytes"])
def test_s14_s20_s23_urls_as_text_and_as_bytes(entry: str, url: str, as_type: Any) -> None:
    request = one(as_type(entry))
    assert (request.url, request.callback, request.method) == (url, None, "GET")


def test_s23_a_compact_seed_names_its_callback() -> None:
    request = one("parse_item--http://h/a--b")
    assert (request.url, request.callback) == ("http://h/a--b", SPIDER.parse_item)


def test_s9_s11_s17_s20_every_field_of_a_json_object_counts() -> None:
    entry = {
        "url": "http://h/?q=1",
        "callback": "parse_item",
        "errback": "failed",
        "method": "post",
        "headers": {"X": "1", "Accept": ["a", "b"], "N": 5},
        "cookies": {"a": "b"},
        "body": "größe",
        "meta": {"depth": 1, "x": [1.5, None]},
        "cb_kwargs": {"sku": "a"},
        "priority": 9,
        "dont_filter": True,
        "encoding": "latin-1",
        "flags": ["f"],
    }
    wanted = Request(**{**entry, "callback": SPIDER.parse_item, "errback": SPIDER.failed})  # type: ignore[arg-type]
    assert one(json.dumps(entry)).to_dict(spider=SPIDER) == wanted.to_dict(spider=SPIDER)


def test_s13_a_json_array_is_as_many_requests() -> None:
    found = parse_start(b'[{"url": "http://h/1"}, "parse_item--http://h/2"]', SPIDER)
    assert [(request.url, request.callback) for request in found] == [
        ("http://h/1", None),
        ("http://h/2", SPIDER.parse_item),
    ]
    assert parse_start("[]", SPIDER) == []


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("not-a-url", "Missing scheme"),
        ("", "Missing scheme"),
        ("www.example.com/p", "Missing scheme"),
        ("javascript:alert(1)", "Missing scheme"),
        ("JavaScript://h/%0aalert(1)", "is no URL to fetch: it has to begin with http://"),
        ("data:text/html,x", "is no URL to fetch"),
        ("about:blank", "is no URL to fetch"),
        ("parse-item--http://h/", "is no URL to fetch"),
        ("://h/", "is no URL to fetch"),
        ("http://", "'http://' names no host"),
        ("https:///path", "names no host"),
        ("unknown--http://h/", "callback 'unknown' is no method of the spider 'shop'"),
        ("http://h/\nhttp://g/", "a control character"),
        ("123", "Missing scheme"),
        ("null", "Missing scheme"),
        ('"http://h/"', "is no URL to fetch"),
        ("{'url': 'http://h/'}", "a Python repr is not JSON, which has double quotes"),
        ("{", "truncated"),
        ('{"url": "http://h/", "n": 1}', "unknown field `n`"),
        ('{"url": 5}', r"Expected `str`, got `int` - at `\$.url`"),
        ('{"url": "http://h/", "method": null}', r"Expected `str`, got `null` - at `\$.method`"),
        ('{"url": "http://h/", "priority": "9"}', r"got `str` - at `\$.priority`"),
        ('{"url": "http://h/", "callback": "start"}', "callback 'start' is no method"),
        ('{"url": "http://h/", "errback": "unknown"}', "errback 'unknown' is no method"),
        ('{"url": "http://h/", "encoding": "klingon"}', "klingon"),
        ('{"url": "http://h/", "body": "€", "encoding": "latin-1"}', "latin-1"),
        ('{"url": "data:,x"}', "is no URL to fetch"),
        ('{"method": "POST"}', "missing required field `url`"),
        ('[{"url": "http://h/"}, 5]', r"got `int` - at `\$\[1\]`"),
        ('[{"url": "http://h/"}, "nonsense"]', "Missing scheme in request url: nonsense"),
        ("[" * 100_000, "RecursionError|truncated|Expected"),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_s8_s12_s13_s23_a_bad_entry_is_refused_in_words(entry: bytes | str, why: str) -> None:
    with pytest.raises(BadSeedError, match=f"(?s)seed .*: .*({why})"):
        parse_start(entry, SPIDER)


_fields = st.dictionaries(
    st.sampled_from(["url", "callback", "headers", "cookies", "body", "meta", "priority", "encoding", "flags", "n"]),
    st.sampled_from(["http://h/", "parse_item", "utf-8"])
    | st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    ),
)


@given(st.binary(max_size=40) | st.text(max_size=40) | _fields.map(json.dumps) | st.lists(_fields).map(json.dumps))
def test_whatever_a_producer_writes_gives_requests_or_a_reason(entry: bytes | str) -> None:
    try:
        found = parse_start(entry, SPIDER)
    except BadSeedError:
        return
    assert all(isinstance(request, Request) for request in found)


def of_scrapy_redis(redis_key: str | None) -> scrapy.Spider:
    spider = ShopSpider()
    spider.redis_key = redis_key  # type: ignore[attr-defined]
    return spider


def test_a_key_that_only_scrapy_redis_would_read_is_refused_by_name() -> None:
    theirs = of_scrapy_redis("queue:%(name)s")
    with pytest.raises(ConfigError, match=r"redis_key = 'queue:%\(name\)s' .* START_URLS_KEY = 'queue:shop'"):
        start_keys_of(Config(), theirs, Settings())
    with pytest.raises(ConfigError, match="REDIS_START_URLS_KEY = 'urls'"):
        start_keys_of(Config(), SPIDER, Settings({"REDIS_START_URLS_KEY": "urls"}))
    both = Config(start_urls_key="urgent, queue:{spider}")
    assert start_keys_of(both, theirs, Settings()) == ["urgent", "queue:shop"]


@pytest.mark.parametrize("redis_key", ["%(name)s:start_urls", "shop:start_urls", None, ""])
def test_the_key_that_both_read_may_be_named(redis_key: str | None) -> None:
    assert start_keys_of(Config(), of_scrapy_redis(redis_key), Settings()) == ["shop:start_urls"]
