"""The spider middleware that sees each page right before the spider does, and each item right after."""

from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from crawler.errors import SeedbedError
from crawler.refusal import refuse
from crawler.storage.extension import Storage


class RawPages:
    """Store every page that reaches the spider; it belongs next to the spider (order 1000).

    So a page that another middleware filters, such as a 404 that the spider does not ask for, is not stored.
    """

    def __init__(self, crawler: Crawler, storage: Storage) -> None:
        self._crawler = crawler
        self._storage = storage

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware. Raises NotConfigured where the extension is off."""
        storage = crawler.get_extension(Storage)
        if storage is None:
            raise NotConfigured
        return cls(crawler, storage)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Open the storage: the first thing that the engine waits for, and whose failure ends the process."""
        try:
            await self._storage.open()
        except SeedbedError as error:
            refuse(self._crawler, error)
        return start

    def process_spider_input(self, response: Response) -> None:
        """Store the page."""
        self._storage.store_page(response)

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Note the order in which items come."""
        async for output in result:
            if output is not None and not isinstance(output, Request):
                self._storage.note_item(output, response)
            yield output
