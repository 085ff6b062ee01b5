"""A spider that yields what the storage must get right, under Scrapy's own scheduler; run by test_storage_crawl.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import scrapy
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http import Response
from twisted.python.failure import Failure


class Pipeline:
    """Drops, fails, delays and replaces items, as users' pipelines do."""

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        match item.get("pipeline"):
            case "drop":
                raise DropItem("unwanted")
            case "fail":
                raise ZeroDivisionError
            case "delay":
                await asyncio.sleep(0.1)
            case "replace":
                return dict(item)
        return item


class StorageSpider(scrapy.Spider):
    name = "storage"
    custom_settings: ClassVar[dict[str, Any]] = {
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
        "ITEM_PIPELINES": {Pipeline: 100},
        # A spider's own parts, in whose place nothing is to be lost.
        "EXTENSIONS": {"scrapy.extensions.corestats.CoreStats": 5},
        "SPIDER_MIDDLEWARES": {"scrapy.spidermiddlewares.depth.DepthMiddleware": 5},
        "ADDONS": {},
        "ROBOTSTXT_OBEY": False,
        "RETRY_ENABLED": False,
    }

    def __init__(self, url: str, pages: str = "0", flood: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.pages = int(pages)
        #: A file where the callback that gives very many items notes how far it is.
        self.flood = Path(flood) if flood else None

    async def start(self) -> AsyncIterator[Any]:
        if self.flood:
            yield Request(f"{self.url}many/flood", callback=self.parse_flood)
        if self.pages:
            for number in range(self.pages):
                yield Request(f"{self.url}many/{number}", callback=self.parse_one)
            return
        yield {"from": "start"}
        yield Request(self.url)
        yield Request(f"{self.url}missing", callback=self.parse_one)
        yield Request(f"{self.url}asked", callback=self.parse_one, meta={"handle_httpstatus_list": [404]})
        yield Request(f"{self.url}filtered", callback=self.parse_one, errback=self.note_failure)
        yield Request("http://127.0.0.1:1/", callback=self.parse_one, errback=self.note_failure)
        yield Request(f"{self.url}moved", callback=self.parse_one)
        for body in (b"a", b"b"):
            yield Request(f"{self.url}post", method="POST", body=body, callback=self.parse_one)
        yield Request(f"{self.url}lambda", callback=lambda _: None)

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        for number, pipeline in enumerate(["drop", "replace", "fail", "delay", "none", "none"]):
            yield {"n": number, "pipeline": pipeline}
        yield {"n": 6, "pipeline": "none", "lock": self.parse_one}

    def parse_one(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {"url": response.url, "status": response.status}

    def parse_flood(self, response: Response) -> Iterator[dict[str, Any]]:
        assert self.flood
        for number in range(2000):
            if number % 50 == 0:
                self.flood.write_text(str(number))
            yield {"flood": number, "text": "x" * 10_000}

    def note_failure(self, failure: Failure) -> Iterator[dict[str, Any]]:
        yield {"failure": failure.type.__name__}
