"""Scrapy's scheduler on the frontier: any spider runs distributed by `SCHEDULER = "crawler.scheduler.Scheduler"`."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from crawler import seeds
from crawler.config import Config
from crawler.conversation import Conversation
from crawler.engine_hooks import EngineHooks, check_start
from crawler.errors import FrontierError, NotDataError, SeedbedError
from crawler.frontier.client import AsyncClients
from crawler.frontier.frontier import Frontier
from crawler.frontier.keys import Keys
from crawler.frontier.lease_keeper import LeaseKeeper
from crawler.frontier.messages import START, UNFILTERED, Link, Turn
from crawler.frontier.rules import Rules
from crawler.frontier.spools import SpoolNotes
from crawler.frontier.start_keys import StartKeys
from crawler.frontier.status import Status
from crawler.hand import Hand
from crawler.intake import Intake, start_keys_of
from crawler.links import Expander, Links
from crawler.logs import name_worker
from crawler.politeness import retry_after_ms
from crawler.refusal import fail, is_refused, refuse
from crawler.sinks import Sinks
from crawler.storage import Storage

logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Share one crawl among any number of workers through the frontier in Redis.

    Nothing here waits: `enqueue_request` and `next_request` touch memory only, and one task talks to Redis. A request
    leaves the frontier when it is wholly done and its documents are durable.
    """

    conversation: Conversation
    #: Names the crawl; another one begins when this one is complete.
    crawl_id: str

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._hooks = EngineHooks(self._on_done, self._has_room)
        self._retry_after_ms: dict[Request, int] = {}
        #: Called after each conversation with Redis with its kind and how long it took, seconds.
        self.on_conversation: Callable[[str, float], None] = lambda *_: None
        #: The whole crawl's, at its end, if this worker saw that it is complete.
        self.books: Status | None = None
        self._task: asyncio.Task[None] | None = None
        self._sinks = Sinks.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the scheduler; settings are read when it is opened."""
        return cls(crawler)

    # -- what the engine calls

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Begin the session with the frontier; the engine waits for it."""
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None] | None:
        """Flush, give back what was not begun, sign off; the engine waits for it."""
        return deferred_from_coro(self._close(reason))

    def has_pending_requests(self) -> bool:
        """Tell whether this worker has anything in hand or under way."""
        return self._task is not None and self.conversation.is_busy

    def enqueue_request(self, request: Request) -> bool:
        """Put a request on its way into the frontier; False when it was refused, or is known to be seen.

        Never raises: the engine would swallow it, and the page's other links with it.
        """
        talk = self.conversation
        if isinstance(request, Links):
            return self._enqueue_links(request)
        parent = self._hooks.parent_of(request)
        is_start = parent is None and "is_start_request" in request.meta
        try:
            seed = seeds.encode(request, self._spider, priority=False)
        except NotDataError as error:
            return self._refuse(error)
        if is_start:
            talk.put(Link(request.priority, self._fingerprint(request), START, seed))
        elif self._filters and not request.dont_filter:
            return talk.put_filtered(request.priority, self._fingerprint(request), seed)
        elif parent is not None and (page := talk.hand.pages.get(parent)):
            # No filter guards it: it goes with the acknowledgement, so that a second fetch can't double it.
            page.children.append((request.priority, seed))
        else:
            talk.put(Link(request.priority, b"", UNFILTERED, seed))
        return True

    def _enqueue_links(self, links: Links) -> bool:
        talk, parent = self.conversation, self._hooks.parent_of(links)
        page = talk.hand.pages.get(parent) if parent is not None else None
        try:
            for fingerprint, seed in self._expander.expand(links):
                if self._filters:
                    talk.put_filtered(links.priority, fingerprint, seed)
                elif page is not None:
                    page.children.append((links.priority, seed))
                else:
                    talk.put(Link(links.priority, b"", UNFILTERED, seed))
        except NotDataError as error:
            return self._refuse(error)
        return True

    def _refuse(self, error: NotDataError) -> bool:
        self.conversation.counts["refused"] += 1
        logger.error("Dropped a request that can't be stored: %s", error)
        return False

    def next_request(self) -> Request | None:
        """Hand the next request to the engine, the least busy download slot first."""
        talk = self.conversation
        if talk.closing or talk.is_full:
            return None
        request = talk.hand.next()
        if request is None:
            talk.starve()
        elif talk.hand.is_low:
            talk.wake()
        return request

    def seed_of(self, request: Request) -> bytes | None:
        """Return the seed that *request* was made of; None where the frontier did not give it."""
        page = self.conversation.hand.pages.get(request)
        return page.seed if page is not None else None

    def lease_of(self, request: Request) -> str:
        """Return the token of the lease that *request* was handed out under; empty where there is none."""
        page = self.conversation.hand.pages.get(request)
        return page.token if page is not None else ""

    # -- the beginning and the end

    async def _open(self, spider: Spider) -> None:
        if is_refused(self.crawler):
            return
        try:
            await self._begin(spider)
        except SeedbedError as error:
            refuse(self.crawler, error)

    async def _begin(self, spider: Spider) -> None:
        check_start(spider)
        settings = self.crawler.settings
        config = Config.from_settings(settings)
        self._spider = spider
        self._fingerprint = self.crawler.request_fingerprinter.fingerprint
        self._filters = config.dedup != "off"
        start_urls = start_keys_of(config, spider, settings)
        self._expander = Expander(self.crawler, spider)
        self._patience_s = max(10.0, config.frontier_lease_s)
        self._storage = self.crawler.get_extension(Storage)
        if self._storage is not None:
            await self._storage.open()
        keys = Keys.of(spider.name, config.frontier_namespace)
        worker = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        rules = Rules.of(config, settings)
        self._clients = AsyncClients(config)
        self.frontier = Frontier(self._clients, keys, worker, rules, self._clients.where)
        self.frontier.line.on_call = self._on_conversation
        name_worker(self.crawler, worker)
        hand = Hand(self.crawler, config.frontier_prefetch or 4 * max(settings.getint("CONCURRENT_REQUESTS"), 4))
        self.conversation = talk = Conversation(
            config,
            spider,
            self.frontier,
            hand,
            self._sinks,
            on_work=self._hooks.nudge,
            on_complete=self._on_complete,
            nothing_waits=self._nothing_waits,
        )
        start_keys = StartKeys(self.frontier, start_urls, 2 * rules.lease_ms)
        self._intake = Intake(config, spider, start_keys, talk, self._fingerprint)
        try:
            opened = await self.frontier.open(begin=True, starting=True)
            self._hooks.attach(self.crawler)
        except SeedbedError:
            await self._clients.aclose()
            raise
        self.conversation.begin(opened)
        self.crawl_id = opened.crawl_id
        self._keeper = LeaseKeeper(config, keys, worker)
        self._keeper.start()
        self._spool_notes = SpoolNotes(self._clients, self._storage.spool if self._storage is not None else None)
        self._spool_notes.start()
        for handler, signal in (
            (self._on_idle, signals.spider_idle),
            (self._on_response, signals.response_downloaded),
            (self._on_left_downloader, signals.request_left_downloader),
        ):
            self.crawler.signals.connect(handler, signal)
        self._task = asyncio.create_task(talk.run())
        self._intake_task = asyncio.create_task(self._intake.run())
        for task in (self._task, self._intake_task):
            task.add_done_callback(self._on_task_ended)

    async def _close(self, reason: str) -> None:
        if self._task is None:
            return
        if self._storage is not None:
            await self._storage.close(reason)
        if self._sinks.pending() is not None:
            self.conversation.forsake()
        self._intake.close()
        self.conversation.hurry()
        await asyncio.wait([self._intake_task], timeout=self._patience_s)
        self.conversation.closing = True
        self.conversation.wake()
        _, late = await asyncio.wait([self._task], timeout=self._patience_s)
        if late:
            self._task.cancel()
            self._intake_task.cancel()
            logger.warning(
                "Redis did not answer for %.0f s: this worker's seeds go back to the queue when its leases end",
                self._patience_s,
            )
        if self.conversation.complete:
            with suppress(FrontierError):
                self.books = await self.frontier.status()
        self._keeper.stop()
        await self._spool_notes.close()
        await self._clients.aclose()

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if task is self._task:
            self._intake_task.cancel()  # nobody would send what it brings
        known = isinstance(error, SeedbedError)
        logger.critical("The worker can't go on: %s", error, exc_info=None if known else error)
        fail(self.crawler)
        if not self.conversation.closing:
            self.conversation.closing = True
            self._end("frontier_error")

    def _on_complete(self) -> None:
        self._end("finished")

    def _end(self, reason: str) -> None:
        self._ending = asyncio.create_task(self.crawler.engine.close_spider_async(reason=reason))

    async def _nothing_waits(self) -> bool:
        return await self._intake.is_empty()

    def _on_conversation(self, kind: str, seconds: float) -> None:
        stats = self.crawler.stats
        stats.inc_value("frontier/conversations")
        stats.inc_value("frontier/conversation_seconds", seconds)  # type: ignore[arg-type] # it adds up any numbers
        self.on_conversation(kind, seconds)

    async def _has_room(self) -> None:
        await self.conversation.wait_for_room()

    # -- what happens to requests

    def _on_done(self, request: Request, failure: str) -> None:
        page = self.conversation.hand.finish(request)
        if page is None:
            return
        page.reason = failure
        if page.delay_ms:  # it never reached the downloader
            self.conversation.report(Turn(page.token, 0))
        if (durable := self._sinks.pending()) is None:
            self.conversation.put(page)
            return
        durable.add_done_callback(lambda _: self.conversation.put(page))
        if not self.conversation.hand.pages:
            self._sinks.hurry()  # nothing is under way that would fill its batch

    def _on_response(self, response: Response, request: Request) -> None:
        if wait_ms := retry_after_ms(response):
            self._retry_after_ms[request] = wait_ms

    def _on_left_downloader(self, request: Request) -> None:
        """Report when the host may be fetched next, counted from the moment at which the request was sent."""
        wait_ms = self._retry_after_ms.pop(request, 0)
        page = self.conversation.hand.pages.get(request)
        if page is None or not (page.delay_ms or wait_ms):
            return
        if wait_ms:
            self.conversation.shun(page.host)
        since_sent_ms = int(request.meta.get("download_latency", 0) * 1000)
        self.conversation.report(Turn(page.token, max(page.delay_ms - since_sent_ms, wait_ms, 0)))
        page.delay_ms = 0

    def _on_idle(self) -> None:
        if not self.conversation.started:  # the engine is idle only when all start requests were given
            self.conversation.started = True
            self.conversation.wake()
        if not self.conversation.complete:
            raise DontCloseSpider
