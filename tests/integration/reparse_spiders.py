"""Spiders whose parser has two versions, as an argument says; run by test_reparse.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import scrapy
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http import Response

from crawler.links import Links
from crawler.storage import stored_as


@stored_as("books", key="isbn")
@dataclass
class Book:
    isbn: str
    title: str
    shelf: int = 0


class Pipeline:
    def process_item(self, item: Any) -> Any:
        if isinstance(item, dict) and item.get("pipeline") == "drop":
            raise DropItem("unwanted")
        if isinstance(item, dict) and item.get("pipeline") == "fail":
            raise ZeroDivisionError("at an item")
        return item


class ShelfSpider(scrapy.Spider):
    """A page of shelves, a page a book, and a form."""

    name = "shelf"
    custom_settings: ClassVar[dict[str, Any]] = {"ITEM_PIPELINES": {Pipeline: 100}, "ROBOTSTXT_OBEY": False}

    def __init__(self, url: str = "", version: str = "1", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.version = int(version)

    async def start(self) -> AsyncIterator[Any]:
        yield {"from": "start", "version": self.version}
        yield Request(f"{self.url}/")

    def parse(self, response: Response) -> Iterator[Any]:
        yield Links(
            [response.urljoin(href) for href in response.css("a.book::attr(href)").getall()],
            callback=self.parse_book,
            cb_kwargs={"shelf": 7},
        )
        yield Request(response.urljoin("/form"), self.parse_form, method="POST", body=b"q=1", meta={"own": (1, 2)})
        yield Request(response.urljoin("/form"), self.parse_form, method="POST", body=b"q=2", meta={"own": (3, 4)})
        yield Request(response.urljoin("/moved"), self.parse_form)

    def parse_book(self, response: Response, shelf: int) -> Iterator[Any]:
        if self.version == 2 and response.url.endswith("/2"):
            raise ValueError("the parser is wrong here")
        title = response.css("h1::text").get("")
        yield Book(response.url.rpartition("/")[2], title.upper() if self.version == 2 else title, shelf)
        if self.version == 1 or not response.url.endswith("/0"):
            yield {"words": len(title.split())}

    def parse_form(self, response: Response) -> Iterator[Any]:
        yield seen_in(response)
        if self.version == 2:
            yield {"pipeline": "drop"}
            yield {"pipeline": "fail"}
            yield {"pipeline": "", "lock": self.parse_form}


class OtherSpider(ShelfSpider):
    """A spider of the same site, whose pages are not `shelf`'s."""

    name = "other"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{self.url}/other", self.parse_form)


class FetchingSpider(scrapy.Spider):
    """A spider whose callback downloads something itself."""

    name = "fetching"
    custom_settings: ClassVar[dict[str, Any]] = {"ROBOTSTXT_OBEY": False}

    def __init__(self, url: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{self.url}/")

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        more = await self.crawler.engine.download_async(Request(response.urljoin("/more")))
        yield {"more": more.text}


def seen_in(response: Response) -> dict[str, Any]:
    """Return what a callback can see of a page, as an item."""
    request: Any = response.request
    return {
        "kind": type(response).__name__,
        "url": response.url,
        "status": response.status,
        "headers": {
            name.decode("latin-1"): [value.decode("latin-1") for value in values]
            for name, values in response.headers.items()
        },
        "body": response.body,
        "flags": response.flags,
        "own": request.meta.get("own"),
        "depth": request.meta.get("depth"),
        "redirect_urls": request.meta.get("redirect_urls"),
        "method": request.method,
        "sent": request.body,
        "callback": request.callback.__name__,
    }
