"""What the scheduler must know of Scrapy's engine and no public signal tells: who begot whom, and what is wholly done.

All touches of Scrapy's insides are here, tried with Scrapy 2.19; `attach` refuses an engine that lacks them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from twisted.python.failure import Failure

from crawler.errors import SeedbedError
from crawler.logs import about


class EngineHooks:
    """Follow the requests of one engine.

    on_done is called once for each request that left the engine, on any path: parsed, failed, ignored by a middleware,
    replaced by a retry or a redirect; everything that its callbacks gave has gone through by then. It gets the reason
    for which the request failed for good, or "": a download error, or an answer that was retried in vain, which nobody
    handled. has_room is awaited before each start request.
    """

    def __init__(self, on_done: Callable[[Request, str], None], has_room: Callable[[], Awaitable[None]]) -> None:
        self._on_done = on_done
        self._has_room = has_room
        self._parents: WeakKeyDictionary[Request, Request] = WeakKeyDictionary()
        self._failures: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
        self._nudge: Callable[[], None] | None = None

    def parent_of(self, request: Request) -> Request | None:
        """Return the request whose response, failure or retry gave this one; None for start requests."""
        return self._parents.get(request)

    def nudge(self) -> None:
        """Make the engine ask for the next request soon; else it may take its heartbeat's 5 s."""
        if self._nudge is not None:
            self._nudge()

    def attach(self, crawler: Crawler) -> None:
        """Begin to follow the crawler's engine, whose spider is being opened. Raises SeedbedError."""
        engine: Any = crawler.engine
        scraper: Any = engine.scraper
        try:
            slot, start = engine._slot, engine._start
            # In this context: whatever callback makes the engine go on, what it then begins is of another page.
            self._nudge = slot.nextcall.schedule = partial(copy_context().run, slot.nextcall.schedule)
            forget = slot.remove_request
            replace = engine._handle_downloader_output
            give = scraper._process_spidermw_output_async
        except AttributeError as error:
            raise SeedbedError(f"this version of Scrapy is not supported ({error}): see pyproject.toml") from None

        def remove_request(request: Request) -> None:
            # A callback may download its own request again: that one's end is not the end of the page.
            if scraper.slot is None or request not in scraper.slot.active:
                self._on_done(request, self._failures.pop(request, ""))
            forget(request)

        def handle_downloader_output(result: Any, request: Request) -> Any:
            if isinstance(result, Request):
                self._parents[result] = request
            elif request.errback is None and (reason := failure_of(result, request)):
                self._failures[request] = reason
            return about(request).run(replace, result, request)

        def process_spidermw_output_async(output: Any, response: Any) -> Any:
            if isinstance(output, Request):
                self._parents[output] = response.request
            return give(output, response)

        failure_of = Failures(crawler)
        slot.remove_request = remove_request
        engine._handle_downloader_output = handle_downloader_output
        scraper._process_spidermw_output_async = process_spidermw_output_async
        if start is not None:
            engine._start = self._in_step(start)

    async def _in_step(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in start:
            await self._has_room()
            yield request


def is_stopping(crawler: Crawler) -> bool:
    """Tell whether *crawler* is to end, whoever wants that: what waits for something else should wait no longer."""
    slot = getattr(crawler._engine, "_slot", None)
    return not crawler.crawling or (slot is not None and slot.closing is not None)


def check_start(spider: Spider) -> None:
    """Refuse a spider that begins in a way that this Scrapy no longer hears: it would crawl nothing, silently.

    Raises SeedbedError.
    """
    if (
        type(spider).start is Spider.start
        and hasattr(spider, "start_requests")
        and not hasattr(Spider, "start_requests")
    ):
        raise SeedbedError(
            f"spider '{spider.name}': start_requests() is never called by this version of Scrapy; "
            "make it `async def start(self)`, which yields the same requests (a RedisSpider becomes a scrapy.Spider)"
        )


class Failures:
    """Tell which results of a download mean that a page was given up, by the settings of Scrapy's own middlewares."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._retried = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._accepts_all = settings.getbool("HTTPERROR_ALLOW_ALL")
        self._accepted = {int(code) for code in settings.getlist("HTTPERROR_ALLOWED_CODES")}
        self._accepted |= set(getattr(crawler.spider, "handle_httpstatus_list", ()))

    def __call__(self, result: Any, request: Request) -> str:
        """Return why the page is given up, or "" when it is not."""
        if isinstance(result, Failure):
            # IgnoreRequest: a middleware (robots.txt, offsite, ...) did not want it.
            known = isinstance(result.value, IgnoreRequest)
            return "" if known else f"given up: {str(result.value) or repr(result.value)}"
        meta = request.meta
        accepted = self._accepts_all or meta.get("handle_httpstatus_all")
        if result.status not in self._retried or accepted or result.status in self._accepted:
            return ""
        if result.status in meta.get("handle_httpstatus_list", ()):
            return ""
        return f"given up: the server answered {result.status}"
