"""Items into a list in Redis, for other programs to take: scrapy-redis's `<spider>:items`, in batches."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawler.config import Config
from crawler.engine_hooks import is_stopping
from crawler.errors import ConfigError
from crawler.frontier.line import Line
from crawler.refusal import fail, for_extension
from crawler.sideline import line_for
from crawler.sinks import Sinks
from crawler.storage.buffer import Buffer

logger = logging.getLogger(__name__)

#: What an item takes in memory besides its text, about.
OVERHEAD_BYTES = 200
#: How often a list that is full is looked at, and what waits for room looks whether the worker is to stop, seconds.
POLL_S = 0.5


class Encoder(ScrapyJSONEncoder):
    """Encode items as scrapy-redis does; and bytes, which JSON lacks, as Base64, and sets in one order."""

    def default(self, o: Any) -> Any:
        """Return what JSON has instead of *o*."""
        if isinstance(o, bytes | bytearray | memoryview):
            return b64encode(o).decode()
        if isinstance(o, set | frozenset):
            return sorted(o, key=lambda member: (type(member).__name__, str(member)))
        return super().default(o)


class Outgoing(NamedTuple):
    """Hold an item on its way."""

    key: str
    text: bytes

    @property
    def size_bytes(self) -> int:
        """Return what it takes in memory, about."""
        return len(self.text) + OVERHEAD_BYTES


class ItemsToRedis:
    """Append every item to REDIS_ITEMS_KEY, one command a batch; the pipeline goes on without waiting for it.

    Under this project's scheduler a page is acknowledged when its items are in the list; one that is fetched again, or
    a reply that is lost, puts them there again. Batches and limits are those of the storage (STORE_*). While Redis is
    away or full, or the list is at ITEMS_LIST_MAX, items wait, and when STORE_BUFFER_BYTES wait, the crawl. Scrapy's
    statistics count `items_to_redis/pushed`, `batches`, `refused`.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._line: Line = line_for(crawler)
        self._encode = _serializer(crawler)
        self._is_closed = False
        self._buffer = Buffer[Outgoing](
            self._write,
            self._on_failure,
            batch_docs=config.store_batch_docs,
            batch_bytes=config.store_batch_bytes,
            flush_s=config.store_flush_s,
            limit_bytes=config.store_buffer_bytes,
            in_flight=1,
        )
        Sinks.of(crawler).add(self)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the pipeline."""
        with for_extension(crawler):
            return cls(crawler, Config.from_settings(crawler.settings))

    # -- what Scrapy calls

    async def process_item(self, item: Any) -> Any:
        """Send the item on its way; wait only while too many are."""
        try:
            text = self._encode(item)
            data = text.encode() if isinstance(text, str) else text
            outgoing = Outgoing(self.item_key(item, self._crawler.spider), data)
        except (TypeError, ValueError, RecursionError) as error:
            logger.error("An item can't be put into the list in Redis: %s", error)  # noqa: TRY400 - it says all
            self._count("refused", 1)
            return item
        self._buffer.put(outgoing)
        while self.full and not self._is_closed and not is_stopping(self._crawler):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._buffer.wait_for_room(), POLL_S)
        return item

    def item_key(self, item: Any, spider: Any) -> str:  # noqa: ARG002 - for subclasses, as in scrapy-redis
        """Return the key of the list that *item* goes to."""
        return self._config.items_key(spider.name)

    async def close_spider(self) -> None:
        """Send what is left, for as long as STORE_CLOSE_S."""
        self._is_closed = True
        if left := await self._buffer.drain(self._config.store_close_s):
            logger.error(
                "The last %d items did not get into the list in Redis within %.0f s (STORE_CLOSE_S)",
                left,
                self._config.store_close_s,
            )

    # -- what the scheduler asks

    def pending(self) -> asyncio.Future[None] | None:
        """Return what resolves when all items until now are in the list; None if they are."""
        return self._buffer.durable

    @property
    def full(self) -> bool:
        """Tell whether no more pages should be fetched for now."""
        return self._buffer.is_full

    def hurry(self) -> None:
        """Send soon what waits for company."""
        self._buffer.hurry()

    # -- inside

    async def _write(self, batch: Sequence[Outgoing]) -> None:
        texts: dict[str, list[bytes]] = {}
        for item in batch:
            texts.setdefault(item.key, []).append(item.text)
        for key, of_key in texts.items():
            await self._wait_for_room(key)
            await self._push(key, of_key)
            self._count("pushed", len(of_key))
            self._count("batches", 1)

    async def _push(self, key: str, texts: Sequence[bytes]) -> None:
        await self._line.insist(lambda: self._line.command(key, "RPUSH", key, *texts))

    async def _wait_for_room(self, key: str) -> None:
        if not self._config.items_list_max:
            return
        said = False
        while await self._line.insist(lambda: self._line.command(key, "LLEN", key)) >= self._config.items_list_max:
            if not said:
                said = True
                logger.warning("The list %s is at ITEMS_LIST_MAX: waiting until somebody takes items from it", key)
            await asyncio.sleep(POLL_S)

    def _on_failure(self, error: BaseException) -> None:
        logger.critical("Items can't go to Redis: %s", error)
        fail(self._crawler)
        self._ending = asyncio.create_task(self._crawler.engine.close_spider_async(reason="items_to_redis_error"))

    def _count(self, what: str, number: int) -> None:
        self._crawler.stats.inc_value(f"items_to_redis/{what}", number)


def _serializer(crawler: Crawler) -> Callable[[Any], str | bytes]:
    named = crawler.settings.get("REDIS_ITEMS_SERIALIZER")
    if not named:
        return Encoder().encode
    try:
        function: Callable[[Any], str | bytes] = load_object(named)
    except (ImportError, NameError, TypeError, ValueError) as error:
        raise ConfigError(f"REDIS_ITEMS_SERIALIZER={named}: a function, or where one is, is wanted ({error})") from None
    return function


class ItemsToRedisIfWanted(ItemsToRedis):
    """Do so where ITEMS_TO_REDIS is set."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the pipeline. Raises NotConfigured where it is not wanted."""
        with for_extension(crawler):
            config = Config.from_settings(crawler.settings)
        if not config.items_to_redis:
            raise NotConfigured
        return cls(crawler, config)
