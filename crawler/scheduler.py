"""Scrapy's scheduler on the frontier: seeds come in batches, links and acknowledgements go out in batches."""

import asyncio
import logging
import os
import random
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler
from twisted.internet.defer import Deferred

from crawler import seeds
from crawler.config import Config
from crawler.engine_hooks import EngineHooks
from crawler.errors import BadSeedError, NotDataError, SeedbedError
from crawler.frontier.client import address, connect
from crawler.frontier.dedup import Dedup
from crawler.frontier.frontier import (
    FILTERED,
    START,
    UNFILTERED,
    Answer,
    Frontier,
    Idle,
    Lease,
    Link,
    Rules,
    Turn,
    Want,
)
from crawler.frontier.lease_keeper import LeaseKeeper
from crawler.frontier.keys import Keys
from crawler.outbox import Outbox, Page, acks_of
from crawler.politeness import retry_after_ms
from crawler.recent import Recent
from crawler.refusal import told
from crawler.storage import Storage

logger = logging.getLogger(__name__)

#: Fingerprints that the local filter remembers at least.
RECENT = 20_000
#: A hungry worker asks no more often than this, seconds.
SHORTEST_POLL_S = 0.02


class Scheduler(BaseScheduler):
    """Share one crawl among any number of workers through the frontier in Redis.

    Nothing here waits: `enqueue_request` and `next_request` touch memory only, and one task talks to Redis. A request
    leaves the frontier when it is wholly done and its documents are durable.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.config = config = Config.from_settings(crawler.settings)
        #: Seeds to have in hand.
        self.prefetch = config.frontier_prefetch or 4 * max(crawler.settings.getint("CONCURRENT_REQUESTS"), 4)
        #: What this worker did; metrics.py gives it names.
        self.counts: Counter[str] = Counter()
        self.frontier: Frontier
        self._queue: Any
        self._hooks = EngineHooks(self._on_done, self._outbox.wait_for_room)
        self._recent = Recent(RECENT)
        self._outbox = Outbox(config.frontier_outbox)
        self._turns: list[Turn] = []
        #: Requests that are prefetched or being worked on.
        self._pages: dict[Request, Page] = {}
        #: Pages that are wholly done and not yet acknowledged.
        self._unsettled: set[Page] = set()
        self._retry_after_ms: dict[Request, int] = {}
        self._storage: Storage | None = None
        self._keeper: LeaseKeeper
        self._talk_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._talking = False
        self._closing = False
        self._started = False
        self._complete = False
        self._hungry = True
        self._drain = False
        self._epoch = 0
        self._generation = 0
        self._idle: Idle | None = None
        self._poll_s = SHORTEST_POLL_S
        self._last_talk = 0.0
        self._next_reclaim = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the scheduler. Raises ConfigError for a wrong setting."""
        return cls(crawler)

    # -- what the engine calls

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Begin the session with the frontier; the engine waits for it."""
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None] | None:  # noqa: ARG002 - the engine gives it
        """Flush, give back what was not begun, sign off; the engine waits for it."""
        return deferred_from_coro(self._close())

    def has_pending_requests(self) -> bool:
        """Tell whether this worker has anything in hand or under way."""
        return bool(self._pages or self._outbox or self._unsettled or self._turns or self._talking)

    def enqueue_request(self, request: Request) -> bool:
        """Put a request on its way into the frontier; False when it was refused, or is known to be seen.

        Never raises: the engine would swallow it, and the page's other links with it.
        """
        parent = self._hooks.parent_of(request)
        is_start = parent is None and "is_start_request" in request.meta
        filtered = is_start or not request.dont_filter
        try:
            seed = seeds.encode(request, self.crawler.spider, priority=False)
        except NotDataError as error:
            self.counts["refused"] += 1
            logger.error("Dropped a request that can't be stored: %s", error)  # noqa: TRY400 - the error says it all
            return False
        fingerprint = self._fingerprint(request) if filtered else b""
        if is_start:
            self._put(Link(request.priority, fingerprint, START, seed))
        elif filtered and self.config.dedup != "off":
            self.counts["lookups"] += 1
            if not self._recent.add(fingerprint):
                self.counts["hits"] += 1
                return False
            self._put(Link(request.priority, fingerprint, FILTERED, seed))
        elif parent is not None and (page := self._pages.get(parent)):
            # No filter guards it: it goes with the acknowledgement, so that a second fetch can't double it.
            page.children.append((request.priority, seed))
        else:
            self._put(Link(request.priority, b"", UNFILTERED, seed))
        return True

    def next_request(self) -> Request | None:
        """Hand the next prefetched request to the engine, the least busy download slot first."""
        if self._closing or self._is_full():
            return None
        request: Request | None = self._queue.pop()
        if request is None:
            if not self._hungry:
                self._hungry = True
                self._wake.set()
            return None
        self._pages[request].started = True
        if 2 * len(self._queue) < self.prefetch:
            self._wake.set()
        return request

    # -- the beginning and the end

    async def _open(self, spider: Spider) -> None:
        config, settings = self.config, self.crawler.settings
        self._queue = build_from_crawler(DownloaderAwarePriorityQueue, self.crawler, FifoMemoryQueue, "")
        self._fingerprint = self.crawler.request_fingerprinter.fingerprint
        keys = Keys.of(spider.name, config.frontier_namespace)
        worker = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        rules = Rules(
            project=settings["BOT_NAME"],
            dedup=Dedup.of(config),
            lease_ms=int(config.frontier_lease_s * 1000),
            delay_ms=int(settings.getfloat("DOWNLOAD_DELAY") * 1000),
            keep_seen=config.dedup_keep,
            max_deaths=config.frontier_max_deaths,
        )
        self.frontier = Frontier(connect(config), keys, worker, rules, address(config))
        self._keeper = LeaseKeeper(config, keys, worker)
        try:
            self._storage = self.crawler.get_extension(Storage)
            if self._storage is not None:
                await self._storage.open()
            opened = await self.frontier.open(begin=True, starting=True)
            self._hooks.attach(self.crawler)
        except SeedbedError as error:
            await self.frontier.redis.aclose()
            raise told(error) from None
        self._epoch, self._generation = opened.epoch, opened.generation
        self._keeper.start()
        for handler, signal in (
            (self._on_idle, signals.spider_idle),
            (self._on_response, signals.response_downloaded),
            (self._on_left_downloader, signals.request_left_downloader),
        ):
            self.crawler.signals.connect(handler, signal)
        self._talk_task = asyncio.create_task(self._talk())
        self._talk_task.add_done_callback(self._on_talk_ended)

    async def _close(self) -> None:
        if self._talk_task is None:
            return
        if self._storage is not None:
            await self._storage.close()
        self._closing = True
        self._wake.set()
        patience_s = max(10.0, self.config.frontier_lease_s)
        _, late = await asyncio.wait([self._talk_task], timeout=patience_s)
        if late:
            self._talk_task.cancel()
            logger.warning(
                "Redis did not answer for %.0f s: this worker's seeds go back to the queue when its leases end",
                patience_s,
            )
        self._keeper.stop()
        await self.frontier.redis.aclose()

    def _on_talk_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.critical(
            "The worker can't go on: %s", error, exc_info=None if isinstance(error, SeedbedError) else error
        )
        if not self._closing:
            self._closing = True
            self._end("frontier_error")

    def _end(self, reason: str) -> None:
        self._ending = asyncio.create_task(self.crawler.engine.close_spider_async(reason=reason))

    # -- what happens to pages

    def _on_done(self, request: Request) -> None:
        page = self._pages.pop(request, None)
        if page is None:
            return
        if page.delay_ms:  # it never reached the downloader
            self._turns.append(Turn(page.host, 0))
        self._unsettled.add(page)
        durable = self._storage.pending(request) if self._storage is not None else None
        if durable is None:
            self._put(page)
        else:
            durable.add_done_callback(lambda _: self._put(page))

    def _on_response(self, response: Response, request: Request) -> None:
        if wait_ms := retry_after_ms(response):
            self._retry_after_ms[request] = wait_ms

    def _on_left_downloader(self, request: Request) -> None:
        """Report when the host may be fetched next, counted from the moment at which the request was sent."""
        wait_ms = self._retry_after_ms.pop(request, 0)
        page = self._pages.get(request)
        if page is None or not (page.delay_ms or wait_ms):
            return
        since_sent_ms = int(request.meta.get("download_latency", 0) * 1000)
        self._turns.append(Turn(page.host, max(page.delay_ms - since_sent_ms, wait_ms, 0)))
        page.delay_ms = 0
        self._wake.set()

    def _on_idle(self) -> None:
        if not self._started:  # the engine is idle only when all start requests were given
            self._started = True
            self._wake.set()
        if not self._complete:
            raise DontCloseSpider

    # -- the conversation

    def _put(self, entry: Link | Page) -> None:
        self._outbox.put(entry)
        if self._hungry or len(self._outbox) % self.config.frontier_batch in {0, 1}:
            self._wake.set()

    def _is_full(self) -> bool:
        return not self._outbox.has_room or (self._storage is not None and self._storage.full)

    async def _talk(self) -> None:
        while not (self._closing and not self._outbox and not self._unsettled):
            await self._rest()
            if time.monotonic() >= self._next_reclaim:
                await self._reclaim()
            links, pages = self._outbox.take(self.config.frontier_batch)
            turns, self._turns = self._turns, []
            was_full = self._is_full()
            self._talking = True
            answer = await self.frontier.exchange(links, acks_of(pages), turns, self._want())
            self._last_talk = time.monotonic()
            self._unsettled.difference_update(pages)
            if answer.lost:
                await self._reopen(links)
            else:
                self._outbox.note_sent(self.frontier.seq, links)
                self._note(answer, len(links))
            self._talking = False
            if answer.idle is not None:
                await self._when_idle(answer.idle, answer.state)
            if was_full or not (self._started or self.has_pending_requests()):
                self._hooks.nudge()
        await self.frontier.leave()

    async def _rest(self) -> None:
        """Sleep until there is something to say."""
        while (left_s := self._due() - time.monotonic()) > 0:
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left_s)

    def _due(self) -> float:
        """Return the time at which to talk to Redis next."""
        due, soon = [self._next_reclaim], self._last_talk + SHORTEST_POLL_S
        if len(self._outbox) >= self.config.frontier_batch or (self._closing and self._outbox):
            return 0.0
        if self._outbox or self._turns:
            due.append(soon if self._hungry else self._outbox.waiting_since + self.config.frontier_flush_s)
        if self._may_pop(2):
            due.append(soon if self._idle is None else self._last_talk + self._poll_s)
        if self._is_full():
            due.append(self._last_talk + self.config.frontier_flush_s)
        return min(due)

    def _may_pop(self, share: int) -> bool:
        """Tell whether seeds may be taken: the prefetch lacks one in *share* at least."""
        if self._closing or self._complete or self._is_full():
            return False
        if self._drain and (self._pages or self._unsettled):
            return False
        return share * (self.prefetch - len(self._queue)) > self.prefetch

    def _want(self) -> Want | None:
        if not self._may_pop(4):
            return None
        held = Counter(page.host for page in self._pages.values() if not page.started)
        return Want(self.prefetch - len(self._queue), self.prefetch // 2, held, self._started)

    def _note(self, answer: Answer, links: int) -> None:
        self.counts["accepted"] += answer.accepted
        self.counts["hits"] += answer.filtered
        self.counts["pushed"] += links
        self.counts["done"] += answer.done
        self.counts["stale"] += answer.stale
        if answer.leases or answer.idle is not None:
            self._idle = answer.idle
            if answer.generation != self._generation:
                self._generation = answer.generation
                self._recent.forget()
        if answer.leases:
            self._poll_s = SHORTEST_POLL_S
            self._drain = False
            for lease in answer.leases:
                self._receive(lease)
            if self._hungry:
                self._hungry = False
                self._hooks.nudge()

    def _receive(self, lease: Lease) -> None:
        self.counts["popped"] += 1
        try:
            request = seeds.decode(lease.seed, self.crawler.spider, priority=lease.priority)
        except BadSeedError as error:
            self.counts["bad"] += 1
            logger.error("Set aside a seed that can't be read: %s", error)  # noqa: TRY400 - the error says it all
            page = Page(lease, "", str(error))
            self._unsettled.add(page)
            self._put(page)
            return
        self._pages[request] = Page(lease, urlparse_cached(request).hostname or "")
        self._queue.push(request)

    async def _when_idle(self, idle: Idle, state: str) -> None:
        self._drain = idle.drain
        longest_s = self.config.frontier_poll_s if idle.wait_ms < 0 else idle.wait_ms / 1000
        self._poll_s = min(2 * self._poll_s, self.config.frontier_poll_s, max(longest_s, SHORTEST_POLL_S))
        if self._storage is not None and self._unsettled:
            self._storage.hurry()
        if not self.config.close_when_complete or self.has_pending_requests() or self._complete:
            return
        if state == "complete" or (idle.is_complete and await self.frontier.finish(self._epoch)):
            self._complete = True
            self._end("finished")

    async def _reclaim(self) -> None:
        self._next_reclaim = time.monotonic() + self.config.frontier_lease_s / 2 * random.uniform(0.8, 1.2)
        restarted, suspects, dead = await self.frontier.reclaim()
        if restarted:
            # A tail that was torn inside a script would be half applied at the next restart: have it written anew.
            await self.frontier.rewrite_log()
        if suspects or dead:
            logger.warning(
                "Took over %d seeds of dead workers; %d seeds that killed theirs are set aside", suspects, dead
            )
        self.counts["reclaimed"] += suspects
        self.counts["buried"] += dead

    async def _reopen(self, links: list[Link]) -> None:
        """Begin the session again: it expired, or Redis lost its last moments.

        Of a page that was begun, some links may be gone with those moments: it goes back to the queue. What was
        prefetched and not begun is kept where the server still knows of it.
        """
        self.counts["reopened"] += 1
        held = [page.token for page in self._pages.values() if not page.started]
        opened = await self.frontier.open(begin=False, starting=not self._started, held=held, patient=True)
        logger.warning(
            "Redis lost this worker's last moments or its session: %d begun pages and %d prefetched seeds go back",
            len(self._pages) - len(held),
            len(opened.missing),
        )
        for request, page in list(self._pages.items()):
            if page.started or page.token in opened.missing:
                page.void()
            if not (page.token or page.started):
                del self._pages[request]
        for page in self._unsettled:
            page.void()
        self._unsettled.difference_update(self._outbox.rewind(opened.was, links))
        self._refill()
        self._recent.forget()
        self._generation = opened.generation

    def _refill(self) -> None:
        """Leave in the prefetch only what this worker still holds."""
        kept = []
        while (request := self._queue.pop()) is not None:
            if request in self._pages:
                kept.append(request)
        for request in kept:
            self._queue.push(request)
