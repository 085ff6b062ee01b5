"""Which requests are given conditions, and what becomes of them when MongoDB does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.errors import AutoReconnect
from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from crawler.config import Config
from crawler.storage.conditional import ConditionalRequests

URL = "http://shop.example/"


class Pages:
    """The collection of pages: it has every page, unless it is away."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    async def find_one(self, criteria: dict[str, Any], fields: dict[str, Any] | None) -> dict[str, Any]:
        self.asked += 1
        if self.is_away:
            raise AutoReconnect("gone")
        return {"headers": {"Etag": ['"\xe9"']}}


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
def middleware(pages: Pages) -> ConditionalRequests:
    made = ConditionalRequests(_crawler(), Config(crawl_conditional=True))
    made._database = {"raw_pages": pages}  # type: ignore[assignment]
    return made


def _crawler() -> Any:
    crawler = get_crawler()
    crawler.request_fingerprinter = SimpleNamespace(fingerprint=lambda _: b"")
    return crawler


async def test_the_conditions_are_there_for_one_download(middleware: ConditionalRequests) -> None:
    """What is sent again, by a retry or a redirect, is a copy of the request."""
    request = Request(URL)
    for again in (
        lambda: middleware.process_response(request, Response(URL, 503)),
        lambda: middleware.process_exception(request, TimeoutError()),
    ):
        await middleware.process_request(request)
        assert request.headers["If-None-Match"] == b'"\xe9"'
        if (done := again()) is not None:
            await done
        assert "If-None-Match" not in request.headers


@pytest.mark.parametrize(
    "request_",
    [
        Request(URL, method="POST"),
        Request(URL, method="HEAD"),
        Request(URL, headers={"If-Modified-Since": "yesterday"}),
        Request(URL, headers={"Range": "bytes=0-9"}),
        Request(URL, meta={"unconditional": True}),
    ],
    ids=str,
)
async def test_a_request_that_is_none_of_its_business(
    request_: Request, middleware: ConditionalRequests, pages: Pages
) -> None:
    before = dict(request_.headers)
    await middleware.process_request(request_)
    assert (dict(request_.headers), pages.asked) == (before, 0)
    answer = Response(URL, 304)
    assert await middleware.process_response(request_, answer) is answer


async def test_while_mongodb_is_away_pages_are_fetched(middleware: ConditionalRequests, pages: Pages) -> None:
    request = Request(URL)
    await middleware.process_request(request)
    pages.is_away = True
    again = await middleware.process_response(request, Response(URL, 304))
    assert isinstance(again, Request)
    assert again.dont_filter
    assert "If-None-Match" not in again.headers
    asked = pages.asked
    for more in (again, Request(URL)):
        await middleware.process_request(more)
        assert "If-None-Match" not in more.headers
    assert pages.asked == asked, "it is left alone for a while"


@pytest.mark.parametrize("settings", [{}, {"CRAWL_CONDITIONAL": "true", "STORAGE": "false"}])
def test_it_is_off_unless_it_is_wanted_and_pages_are_stored(settings: dict[str, str]) -> None:
    with pytest.raises(NotConfigured):
        ConditionalRequests.from_crawler(get_crawler(settings_dict=settings))
