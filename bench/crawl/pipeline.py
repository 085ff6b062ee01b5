"""Items into MongoDB one by one, as Scrapy's documentation shows it: what users of scrapy-redis have."""

from typing import Any, Self

from pymongo import MongoClient
from scrapy.crawler import Crawler


class InsertOne:
    """Insert each item when it comes."""

    def __init__(self, uri: str, database: str) -> None:
        self._client: MongoClient[dict[str, Any]] = MongoClient(uri, w="majority", journal=True)
        self._items = self._client[database]["items"]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read where MongoDB is."""
        return cls(crawler.settings["MONGO_URI"], crawler.settings["MONGO_DATABASE"])

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Store one item."""
        self._items.insert_one(dict(item))
        return item

    def close_spider(self) -> None:
        """Let go of the connections."""
        self._client.close()
