"""How Scrapy's engine gets stored pages in the place of downloads, all of it by what Scrapy lets anybody replace.

The spider's start requests make room for those of the stored pages (a spider middleware, the one next to the engine).
They pass a scheduler that takes no others, and are answered before any downloader middleware is asked: so there are no
robots.txt, cookies, delays, retries and redirects.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Self

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from crawler import seeds
from crawler.addon import COMPONENTS
from crawler.config import Config
from crawler.errors import BadPageError, BadSeedError, StorageError
from crawler.links import Links
from crawler.refusal import fail
from crawler.reparse.items import ItemStorage
from crawler.reparse.run import Run
from crawler.storage import RawPages, Storage
from crawler.storage.client import open_database
from crawler.storage.stored import Page, read, response_of

#: Pages that are read ahead.
AHEAD_PAGES = 32

_RUN = "REPARSE_RUN"
_LIMITS = ("TIMEOUT", "TIMEOUT_NO_ITEM", "ITEMCOUNT", "PAGECOUNT", "PAGECOUNT_NO_ITEM", "ERRORCOUNT")
_SETTINGS: dict[str, Any] = {
    "STORAGE": True,
    "STORE_SPOOL_DIR": "",  # when items can't be written, no pages can be read
    # Whoever watches the workers would take this for one.
    "METRICS_PORT": "off",
    "HEARTBEAT_FILE": "",
    **{f"CLOSESPIDER_{what}": 0 for what in _LIMITS},
}


def prepare(settings: BaseSettings, run: Run) -> None:
    """Set *settings*, those of a crawler that has not begun, so that it does *run*."""
    settings.update(_SETTINGS, "cmdline")
    settings.set(_RUN, run, "cmdline")
    if run.is_dry:
        settings.set("ITEMS_TO_REDIS", False, "cmdline")
    settings.set("SCHEDULER", Scheduler, "cmdline")
    others = {**settings.getdict("DOWNLOADER_MIDDLEWARES_BASE"), **COMPONENTS["DOWNLOADER_MIDDLEWARES"]}
    settings.set("DOWNLOADER_MIDDLEWARES", {**dict.fromkeys(others), Answers: 0}, "cmdline")
    settings.set_in_component_priority_dict("SPIDER_MIDDLEWARES", StoredPages, -1_000_000)
    settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", RawPages, 1000)
    settings.set_in_component_priority_dict("EXTENSIONS", Storage, None)
    settings.set_in_component_priority_dict("EXTENSIONS", ItemStorage, 0)
    for name in ("SPIDER_MIDDLEWARES", "EXTENSIONS"):  # or the project's would stand in their place again
        settings.set(name, settings.getdict(name), "cmdline")


class _Part:
    """A part of the engine that knows the run."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._run: Run = crawler.settings[_RUN]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it."""
        return cls(crawler)


class StoredPages(_Part):
    """The spider middleware that begins with stored pages in the place of what the spider would begin with."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._database = open_database(Config.from_settings(crawler.settings), socketTimeoutMS=None)
        for handler, signal in (
            (self._on_callback_failed, signals.spider_error),
            (self._on_item, signals.item_scraped),
            (self._on_item_dropped, signals.item_dropped),
            (self._on_item_failed, signals.item_error),
            (self._close, signals.spider_closed),
        ):
            crawler.signals.connect(handler, signal)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:  # noqa: ARG002 - Scrapy's name
        """Give the request of each page, whose response then waits for it."""
        run = self._run
        storage = self._crawler.get_extension(ItemStorage)
        if storage is None:  # it has said why
            return
        run.begin()
        try:
            async with aclosing(read(self._database, run.selection)) as pages:
                async for page in pages:
                    run.note_read(page["_id"])
                    if (response := self._response_of(page)) is not None and response.request is not None:
                        storage.adopt(response, page)
                        run.offer(response.request, response)
                        yield response.request
                        await run.wait_for_room(AHEAD_PAGES)
                    if run.counts["read"] == run.limit:
                        return
        except StorageError as error:
            run.ended = str(error)
            fail(self._crawler)

    def _response_of(self, page: Page) -> Response | None:
        spider: Any = self._crawler.spider
        seed = page.get("seed")
        try:
            if seed is not None:
                return response_of(page, seeds.decode(seed, spider))
            why = "its request was not stored with it"
        except (BadSeedError, BadPageError) as error:
            why = str(error)
        self._run.note_trouble("unreadable", page.get("url", page["_id"].hex()), why)
        return None

    def _on_callback_failed(self, failure: Failure, response: Any) -> None:
        self._note_failure("failed", failure, response)

    def _on_item(self) -> None:
        self._run.counts["items"] += 1

    def _on_item_dropped(self) -> None:
        self._run.counts["dropped"] += 1

    def _on_item_failed(self, failure: Failure, response: Any) -> None:
        self._note_failure("failed_items", failure, response)

    def _note_failure(self, kind: str, failure: Failure, response: Any) -> None:
        # An errback has a failure in the place of the response; it knows its request, too.
        self._run.note_trouble(kind, response.request.url, f"{type(failure.value).__name__}: {failure.value}")

    async def _close(self, reason: str) -> None:
        if reason != "finished" and not self._run.ended:
            self._run.ended = reason
        await self._database.client.close()


class Scheduler(_Part, BaseScheduler):
    """Take the requests of stored pages; count those that callbacks give, and leave it at that."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._queue: deque[Request] = deque()

    def has_pending_requests(self) -> bool:
        """Tell whether any page waits."""
        return bool(self._queue)

    def enqueue_request(self, request: Request) -> bool:
        """Queue the request of a stored page; False: it is not to be followed."""
        if self._run.is_offered(request):
            self._queue.append(request)
            return True
        self._run.counts["requests"] += len(request.urls) if isinstance(request, Links) else 1
        return False

    def next_request(self) -> Request | None:
        """Hand out the next page."""
        return self._queue.popleft() if self._queue else None


class Answers(_Part):
    """The only downloader middleware: it answers every request, or has it ignored."""

    def process_request(self, request: Request) -> Response:
        """Return the stored response; raises IgnoreRequest for whatever a callback or a pipeline wants."""
        response = self._run.take(request)
        if response is None:
            why = "nothing is fetched while stored pages are parsed again"
            self._run.note_trouble("not_fetched", request.url, why)
            raise IgnoreRequest(why)
        return response
