"""The Scrapy extension that stores every page a spider gets and every item that passes the pipelines."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from crawler.config import Config
from crawler.engine_hooks import is_stopping
from crawler.errors import NotDataError, NotStorableError
from crawler.refusal import fail, for_extension
from crawler.sinks import Sinks
from crawler.storage.documents import Draft, RawPage, Source, item_document, reject_item
from crawler.storage.origin import seed_of
from crawler.storage.places import Places
from crawler.storage.spool import Spool
from crawler.storage.store import Store

logger = logging.getLogger(__name__)

#: How often what waits for room looks whether the worker is to stop.
STOP_POLL_S = 0.5


class Storage:
    """Store pages and items in MongoDB, in batches, without ever making the event loop wait.

    The scheduler asks it when a page may be acknowledged (`pending`) and whether to stop handing out requests (`full`).
    Scrapy's statistics count `storage/pages_stored`, `items_stored`, `rejected`, `flushes`, `flush_seconds`,
    `flush_documents`, `retries`, `spooled`, `replayed`, `pages_without_seed`.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._store: Store | None = None
        self._is_closed = self._has_failed = False
        self._under_way: WeakKeyDictionary[Any, PageUnderWay] = WeakKeyDictionary()
        self._room: asyncio.Task[None] | None = None
        Sinks.of(crawler).add(self)
        #: Called with the name and the number of what was counted.
        self.on_count: Callable[[str, float], None] = lambda *_: None
        #: Stands for the crawl where the scheduler knows of none.
        self._run = uuid.uuid4().hex
        for handler, signal in (
            (self._on_item_scraped, signals.item_scraped),
            (self._on_item_lost, signals.item_dropped),
            (self._on_item_lost, signals.item_error),
            (self.close, signals.spider_closed),
        ):
            crawler.signals.connect(handler, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the extension; STORAGE=false does without."""
        with for_extension(crawler):
            config = Config.from_settings(crawler.settings)
            if not config.storage:
                raise NotConfigured
            return cls(crawler, config)

    # -- for the scheduler

    async def open(self) -> None:
        """Connect to MongoDB, unless that is done.

        Raises ConfigError or StorageError, which say what to do.
        """
        if self._store is None:
            self._store = await Store.open(self._config, self._count, self._on_failure)

    async def close(self, reason: str) -> None:
        """Store what is left, for as long as STORE_CLOSE_S, and disconnect."""
        if self._store is not None and not self._is_closed:
            self._is_closed = True
            if left := await self._store.close(wholly=reason == "finished"):
                self._note_lost(left)

    def pending(self) -> asyncio.Future[None] | None:
        """Return what resolves when all that was stored until now is durable or set aside; None if it is.

        It never fails: while MongoDB is away it stays pending. It is shared by many: use `add_done_callback` or
        `asyncio.shield`.
        """
        return self._store.buffer.durable if self._store is not None else None

    @property
    def full(self) -> bool:
        """Tell whether the buffer is at STORE_BUFFER_BYTES, so that no more pages should be fetched."""
        return self._store is not None and self._store.buffer.is_full

    def hurry(self) -> None:
        """Store soon what waits for company: the crawl has nothing else to do."""
        if self._store is not None:
            self._store.buffer.hurry()

    # -- for the metrics

    @property
    def buffered_documents(self) -> int:
        """Return how many documents wait to be durable."""
        return self._store.buffer.documents if self._store is not None else 0

    @property
    def buffered_bytes(self) -> int:
        """Return how many bytes they take in memory, about."""
        return self._store.buffer.size_bytes if self._store is not None else 0

    @property
    def spool(self) -> Spool | None:
        """Return where documents wait for a MongoDB that is away, if there is such a place."""
        return self._store.spool if self._store is not None else None

    # -- for the spider middleware

    def store_page(self, response: Response) -> None:
        """Store a page that is about to go to the spider."""
        page = self._page_of(response)
        page.is_kept = True
        self._put(
            RawPage(
                key=page.key,
                url=page.url,
                final_url=response.url,
                status=response.status,
                headers=[(name, value) for name, values in response.headers.items() for value in values],
                body=response.body,
                flags=[str(flag) for flag in response.flags],
                spider=self._crawler.spidercls.name,
                crawl=self._crawl,
                crawled_at=page.crawled_at,
                seed=self._seed_of(response),
            )
        )

    def note_item(self, item: object, response: Response) -> None:
        """Note the place that an item has on its page, before it goes to the pipelines."""
        self._page_of(response).places.give(item)

    # -- what Scrapy tells

    def _on_item_scraped(self, item: Any, response: Any) -> Awaitable[None] | None:
        source = self._source_of(item, response)
        try:
            document = item_document(item, source)
        except NotStorableError as error:
            logger.warning("Set aside an item of %s that can't be stored: %s", source.url or "no page", error)
            document = reject_item(item, source, str(error))
        self._put(document)
        if not self.full:
            return None
        # A callback that never ends is not the scheduler's to stop: it waits here.
        if self._room is None or self._room.done():
            self._room = asyncio.create_task(self._wait_for_room())
        return asyncio.shield(self._room)

    def _on_item_lost(self, item: Any, response: Any) -> None:
        if response is not None:
            self._page_of(response).places.take(item)

    async def _wait_for_room(self) -> None:
        """Wait until the buffer has room; but once the worker is to stop, not where that may be for ever."""
        while self._store is not None and not self._is_closed and self._store.buffer.is_full:
            if (self._store.is_away or self._has_failed) and is_stopping(self._crawler):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._store.buffer.wait_for_room(), STOP_POLL_S)

    def _on_failure(self, error: BaseException) -> None:
        self._has_failed = True
        logger.critical("The storage can't go on; its pages will be fetched again", exc_info=error)
        fail(self._crawler)
        self._ending = asyncio.create_task(self._crawler.engine.close_spider_async(reason="storage_error"))

    # -- inside

    def _note_lost(self, documents: int) -> None:
        logger.error("The last %d documents could not be stored: their pages will be fetched again", documents)

    @property
    def _crawl(self) -> str:
        return getattr(self._crawler.engine.scheduler, "crawl_id", None) or self._run

    def _page_of(self, response: Any) -> "PageUnderWay":
        """Return what is known of a response, or of the failure that an errback got instead."""
        page = self._under_way.get(response)
        if page is None:
            request = response.request
            key = self._crawler.request_fingerprinter.fingerprint(request)
            page = self._under_way[response] = PageUnderWay(key, request.url, datetime.now(UTC))
        return page

    def _source_of(self, item: Any, response: Any) -> Source:
        if response is None:  # the spider's start() gave it
            return Source("", datetime.now(UTC), None, 0)
        page = self._page_of(response)
        return Source(page.url, page.crawled_at, page.key, page.places.take(item), page.is_kept, page.parsed_at)

    def _seed_of(self, response: Any) -> bytes | None:
        try:
            return seed_of(response.request, self._crawler)
        except NotDataError as error:
            if not self._crawler.stats.get_value("storage/pages_without_seed"):
                logger.warning("A page is stored that can't be parsed again (others are but counted): %s", error)
            self._count("pages_without_seed", 1)
            return None

    def _put(self, draft: Draft) -> None:
        if self._store is None:
            raise RuntimeError(
                "the storage is not open: the spider middleware crawler.storage.RawPages, which opens it, is off"
            )
        self._store.buffer.put(draft)

    def _count(self, name: str, number: float) -> None:
        # The interface says int; what collects adds up whatever numbers it gets.
        self._crawler.stats.inc_value(f"storage/{name}", number)  # type: ignore[arg-type]
        self.on_count(name, number)


class PageUnderWay:
    """What is known of a page while its callback and the pipelines are at work."""

    __slots__ = ("crawled_at", "is_kept", "key", "parsed_at", "places", "url")

    def __init__(
        self, key: bytes, url: str, crawled_at: datetime, parsed_at: datetime | None = None, *, is_kept: bool = False
    ) -> None:
        self.key = key
        self.url = url
        self.crawled_at = crawled_at
        #: None: right after it was fetched.
        self.parsed_at = parsed_at
        self.is_kept = is_kept
        self.places = Places()
