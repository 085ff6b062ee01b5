"""Two requests are one page exactly when Scrapy says so, but for a scheme's own port."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from w3lib.url import canonicalize_url

from crawler.fingerprints import RequestFingerprinter, canonical, fingerprint_url, is_canonical

_characters = st.text("abAB09.-_~!$&'()*+,;=:@%/?# ", max_size=30)
_parameters = st.lists(st.sampled_from(["a=1", "a=2", "a.b=1", "a-=1", "a=1+2", "b=", "=1", "b", "%C3%A9=%C3%A9"]))
_paths = st.lists(st.sampled_from(["a", "%C3%A9", "%E9", "%c3%a9", "%7E", "%2F", "%20", "/", ".", "-"])).map("".join)
_urls = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.example", "A.example", "127.0.0.1", "a_b.example", "[::1]", "user@a.example"]),
    st.sampled_from(["", ":81", ":081", ":8080", ":59999", ":65535"]),
    _characters | st.builds("{}?{}".format, _paths, _parameters.map("&".join)),
)


@given(_urls)
def test_the_short_cut_and_w3lib_agree(url: str) -> None:
    safe = Request(url).url
    assert canonical(safe) == canonicalize_url(safe)
    if is_canonical(url):
        assert safe == url


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/",
        "https://a.example:8443/%C3%A9/index.html?a=1",
        "http://a.example/product/7/lamp?colour=red&size=l",
        "http://a.example/?a=1&a=2&a.b=0",
    ],
)
def test_ordinary_addresses_take_the_short_cut(url: str) -> None:
    assert is_canonical(url)


@pytest.mark.parametrize("url", ["http://a.example/?b=1&a=1", "http://a.example:80/", "http://a.example:65536/"])
def test_whatever_is_doubtful_does_not(url: str) -> None:
    assert not is_canonical(url)


@given(_urls, _urls)
def test_same_page_exactly_when_scrapy_says_so(a: str, b: str) -> None:
    one, two = Request(a), Request(b)
    ours = RequestFingerprinter().fingerprint
    assert (ours(one) == ours(two)) == (scrapy_fingerprint(one) == scrapy_fingerprint(two))


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("http://a.example:80/x", "http://a.example/x"),
        ("https://a.example:443/", "https://a.example/"),
        ("http://user:80@a.example:80/", "http://user:80@a.example/"),
        ("http://[::1]:80/x?b=1&a=2", "http://[::1]/x?a=2&b=1"),
        ("http://a.example:80", "http://a.example/"),
        ("http://A.example/x?b=2&a=1#part", "http://a.example/x?a=1&b=2"),
    ],
)
def test_spellings_of_one_page(spelled: str, plain: str) -> None:
    assert fingerprint_url(spelled) == fingerprint_url(plain)


@pytest.mark.parametrize(
    "other",
    [
        "http://a.example:8080/x",
        "http://a.example:443/x",
        "https://a.example:80/x",
        "http://a.example/x:80",
        "http://a.example/X",
        "http://a.example/x?a=1",
    ],
)
def test_other_pages(other: str) -> None:
    assert fingerprint_url(other) != fingerprint_url("http://a.example/x")


def test_method_and_body_count() -> None:
    """Two POSTs to one address are two pages."""
    ours = RequestFingerprinter().fingerprint
    requests = [
        Request("http://a.example/"),
        Request("http://a.example/", method="POST"),
        Request("http://a.example/", method="POST", body=b"a"),
        Request("http://a.example/", method="POST", body=b"b"),
        Request("http://a.example/#x", meta={"verbatim_url": True}),
    ]
    assert len({ours(request) for request in requests}) == len(requests)
