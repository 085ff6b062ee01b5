"""Reading HTML: texts, and links that lead to pages and are spelled as few ways as possible."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from bench.site import SiteConfig, canonical_url
from bench.site.addresses import Addresses
from bench.site.pages import Pages
from bench.site.shop import Shop
from crawler.html import Html, host_of, is_within, read_html

URL = "http://site.example/dir/page?x=1"


def html_of(body: str, url: str = URL, encoding: str = "utf-8") -> Html:
    return read_html(HtmlResponse(url, body=body.encode(encoding), encoding=encoding))


def links_of(*hrefs: str, url: str = URL, encoding: str = "utf-8") -> list[str]:
    return html_of("".join(f'<a href="{href}">x</a>' for href in hrefs), url, encoding).links


def test_what_a_page_says_of_itself() -> None:
    html = html_of("""
        <html lang="de"><head><title> Ein
        Titel </title><meta property="og:description" content="sozial">
        <META NAME="Description" content=" Worum   es geht "></head>
        <body><h2>Erste<!-- nicht --> <b>Überschrift</b></h2><h1></h1><svg><title>Bild</title></svg><h6>Letzte</h6>
    """)
    assert html == Html("Ein Titel", "Worum es geht", "de", ["Erste Überschrift", "Letzte"], [])


def test_the_description_for_social_media_is_second_choice() -> None:
    assert html_of('<meta property="og:description" content="sozial">').description == "sozial"


@pytest.mark.parametrize("body", ["", "\0", "<", "text", "<html>", "<a href>", "<meta>", "<title>", "<!-- only -->"])
def test_whatever_is_no_html_says_nothing(body: str) -> None:
    html = html_of(body)
    assert (html.description, html.language, html.headings, html.links) == (None, None, [], [])


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("other", "http://site.example/dir/other"),
        ("/top", "http://site.example/top"),
        ("/a/../b", "http://site.example/b"),
        ("../up?q=1#part", "http://site.example/up?q=1"),
        ("?x=2", "http://site.example/dir/page?x=2"),
        ("//other.example/y", "http://other.example/y"),
        (" /spaces\t \n", "http://site.example/spaces"),
        ("/bro\nken", "http://site.example/broken"),
        ("HTTP://OTHER.example:80/Y", "http://other.example/Y"),
        ("https://other.example:443", "https://other.example/"),
        ("http://other.example:443/", "http://other.example:443/"),
        ("http://me:Pass@Other.example:80/", "http://me:Pass@other.example/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("/a?b=1&amp;c=2", "http://site.example/a?b=1&c=2"),
        ("/ü?ü=ü", "http://site.example/%C3%BC?%C3%BC=%C3%BC"),
        ("/page.HTML", "http://site.example/page.HTML"),
        ("/a.pdf/", "http://site.example/a.pdf/"),
        ("http://get.zip", "http://get.zip/"),
    ],
)
def test_a_link_in_its_one_spelling(href: str, expected: str) -> None:
    assert links_of(href) == [expected]


@pytest.mark.parametrize(
    "href",
    [
        "",
        "#top",
        "javascript:void(0)",
        "mailto:me@site.example",
        "ftp://me@site.example/",
        "data:text/html,x",
        "tel:112",
        "http://[::1",
        "/picture.JPG",
        "/archive.tar.gz?download=1",
        "/film.mp4#t=10",
    ],
)
def test_what_leads_to_no_page(href: str) -> None:
    assert links_of(href) == []


def test_a_link_is_counted_once() -> None:
    assert links_of("/a#1", "/b", "/a#2", "http://SITE.example:80/a") == [
        "http://site.example/a",
        "http://site.example/b",
    ]


def test_links_are_relative_to_the_base_that_the_page_names() -> None:
    body = '<base href="/base/"><base href="/second/"><a href="x">x</a><map><area href="/y"></map>'
    assert html_of(body).links == ["http://site.example/base/x", "http://site.example/y"]


def test_a_query_is_spelled_in_the_encoding_of_the_page() -> None:
    assert links_of("/ü?q=ü", encoding="latin-1") == ["http://site.example/%C3%BC?q=%FC"]


def test_the_port_that_goes_unsaid_is_not_handed_on() -> None:
    assert links_of("/a", "b", url="http://SITE.example:80/") == ["http://site.example/a", "http://site.example/b"]


def test_the_links_of_the_sample_site() -> None:
    """All of them, whichever way they are spelled, as the site's own rules give them."""
    shop = Shop(SiteConfig(port=8000, products=60))
    addresses = Addresses(shop)
    pages = Pages(shop, addresses)
    for page in shop.pages():
        response = HtmlResponse(addresses.url(page), body=pages.html(page), encoding="utf-8")
        found = [canonical_url(link) for link in read_html(response).links]
        targets = {canonical_url(addresses.url(link.target)) for part in pages._links.of(page) for link in part}
        assert set(found) == targets


@pytest.mark.parametrize(
    ("host", "domains", "expected"),
    [
        ("site.example", ["site.example"], True),
        ("www.site.example", ["site.example"], True),
        ("mysite.example", ["site.example"], False),
        ("site.example", ["www.site.example"], False),
        ("b.example", ["a.example", "b.example"], True),
        ("site.example", [], False),
        ("", ["site.example"], False),
    ],
)
def test_domains_hold_what_lies_below_them(host: str, domains: list[str], expected: bool) -> None:
    assert is_within(host, domains) is expected


def test_the_host_of_an_address() -> None:
    assert host_of("http://Site.Example:8000/") == "site.example"
    assert host_of("http://[::1") == ""
    assert host_of("mailto:x") == ""
