"""The one task that talks to Redis: when to speak, what to say, and what follows from the answer."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from scrapy import Spider

from crawler import seeds
from crawler.config import Config
from crawler.errors import BadSeedError, FrontierError
from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import FILTERED, Answer, Idle, Lease, Link, Opened, Turn
from crawler.hand import Hand, Page
from crawler.outbox import Outbox
from crawler.recent import Recent
from crawler.sinks import Sinks

logger = logging.getLogger(__name__)

#: Fingerprints that the local filter remembers at least.
RECENT = 20_000
#: Two calls that nobody waits for are this far apart, seconds.
SHORTEST_WAIT_S = 0.02


class Conversation:
    """Keep a worker's hand filled and its outbox empty, with as few calls as that takes.

    on_work is called when seeds have come or room has; on_complete when all workers agree that the crawl is complete;
    nothing_waits is asked before that whether producers still have something.
    """

    def __init__(
        self,
        config: Config,
        spider: Spider,
        frontier: Frontier,
        hand: Hand,
        sinks: Sinks,
        on_work: Callable[[], None],
        on_complete: Callable[[], None],
        nothing_waits: Callable[[], Awaitable[bool]],
    ) -> None:
        self.config = config
        self.spider = spider
        self.frontier = frontier
        self.hand = hand
        self.sinks = sinks
        self.on_work = on_work
        self.on_complete = on_complete
        self.nothing_waits = nothing_waits
        self.outbox = Outbox(config.frontier_outbox)
        self.recent = Recent(RECENT)
        self.counts: Counter[str] = Counter()
        #: The spider has given all of its start requests.
        self.started = False
        self.complete = False
        #: Nobody who brings start URLs is to wait any more.
        self._hurries = False
        self._not_full = asyncio.Event()
        self._not_full.set()
        #: Nothing new is taken; the conversation ends when everything was said.
        self.closing = False
        self._turns: list[Turn] = []
        #: Hosts that want to be left alone for a while.
        self._shunned: set[str] = set()
        self._wake = asyncio.Event()
        self._talking = False
        #: The engine asked for a request and there was none.
        self._hungry = True
        #: This worker is to finish what it holds: a suspect waits, to be run alone.
        self._drain = False
        self._idle: Idle | None = None
        self._poll_s = SHORTEST_WAIT_S
        self._last_call = 0.0
        self._next_reclaim = 0.0
        #: Workers that share the crawl, as far as is known.
        self.workers = 1
        self._epoch = 0
        self._generation = 0
        frontier.line.on_trouble = self._on_trouble

    # -- what the scheduler says

    @property
    def is_busy(self) -> bool:
        """Tell whether anything is in hand or under way."""
        return bool(self.hand or self.outbox or self._turns or self._talking)

    @property
    def is_full(self) -> bool:
        """Tell whether no more pages should be begun."""
        return not self.outbox.has_room or self.sinks.full

    async def wait_for_room(self) -> None:
        """Return when more start URLs may come in: this worker has room, and the frontier too."""
        await self._not_full.wait()
        await self.outbox.wait_for_room()

    def hurry(self) -> None:
        """Let nobody wait any more for the frontier to have room."""
        self._hurries = True
        self._not_full.set()

    def put(self, entry: Link | Page) -> None:
        """Send a link or an acknowledgement, soon."""
        self.outbox.put(entry)
        if self._hungry or len(self.outbox) % self.config.frontier_batch in {0, 1}:
            self._wake.set()

    def put_filtered(self, priority: int, fingerprint: bytes, seed: bytes) -> bool:
        """Send a link to the filter, soon; False when this worker sent it not long ago."""
        self.counts["lookups"] += 1
        if not self.recent.add(fingerprint):
            self.counts["hits"] += 1
            return False
        self.put(Link(priority, fingerprint, FILTERED, seed))
        return True

    def report(self, turn: Turn) -> None:
        """Tell all workers when a host may be fetched next."""
        self._turns.append(turn)
        self._wake.set()

    def shun(self, host: str) -> None:
        """Give back what was taken of a host whose next turn was put off; to be said after the turn."""
        self._shunned.add(host)

    def starve(self) -> None:
        """Say that the engine could work, and there was nothing for it."""
        if not self._hungry:
            self._hungry = True
            self._wake.set()

    def wake(self) -> None:
        """Look anew whether there is something to say."""
        self._wake.set()

    def forsake(self) -> None:
        """Wait no longer for pages whose documents did not become durable: they go back with all leases in the end."""
        self.hand.unsettled.intersection_update(self.outbox.pages)
        self.wake()

    def begin(self, opened: Opened) -> None:
        """Note what the frontier said when the session was opened."""
        self._epoch, self._generation = opened.epoch, opened.generation

    # -- the loop

    async def run(self) -> None:
        """Talk until the worker closes; then give back what was not begun, and sign off."""
        while not (self.closing and not self.outbox and not self.hand.unsettled):
            await self._rest()
            if time.monotonic() >= self._next_reclaim:
                await self._reclaim()
            was_full = self.is_full
            self._talking = True
            shunned, self._shunned = self._shunned, set()
            answer = await self._call()
            if tokens := [token for host in shunned for token in self.hand.withdraw(host)]:
                await self.frontier.give_back(tokens)
            self._talking = False
            if answer.idle is not None:
                await self._when_idle(answer.idle, answer.state)
            if was_full or not (self.started or self.is_busy):
                self.on_work()
        await self.frontier.leave()

    async def _rest(self) -> None:
        while (left_s := self._due() - time.monotonic()) > 0:
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._wake.wait()

    def _due(self) -> float:
        """Return the time of the next call, in monotonic seconds."""
        due, soon = [self._next_reclaim], self._last_call + SHORTEST_WAIT_S
        if len(self.outbox) >= self.config.frontier_batch:
            return 0.0
        if self.closing and (self.outbox or not self.hand.unsettled):
            return 0.0
        if self.outbox or self._turns:
            due.append(soon if self._hungry else self.outbox.waiting_since + self.config.frontier_flush_s)
        if self.hand.is_low and self._may_take():
            due.append(soon if self._idle is None else self._last_call + self._poll_s)
        if self.is_full:
            due.append(self._last_call + self.config.frontier_flush_s)
        return min(due)

    def _may_take(self, settled: Iterable[Page] = ()) -> bool:
        """Tell whether seeds may be taken, and are worth it, once the pages *settled* are acknowledged."""
        if self.closing or self.complete or self.is_full:
            return False
        if self._drain and (self.hand.pages or self.hand.unsettled.difference(settled)):
            return False
        return 4 * self.hand.room > self.hand.size

    async def _call(self) -> Answer:
        links, pages = self.outbox.take(self.config.frontier_batch)
        turns, self._turns = self._turns, []
        started = self.started and not self.outbox  # all start requests are in the frontier after this call
        want = self.hand.want(started=started) if self._may_take(pages) else None
        acks = [page.ack for page in pages if page.token]
        answer = await self.frontier.exchange(links, acks, turns, want)
        self._last_call = time.monotonic()
        self.hand.unsettled.difference_update(pages)
        if answer.lost:
            await self._reopen(links)
        else:
            self.outbox.note_sent(self.frontier.seq, links)
            self._note(answer, len(links))
        return answer

    def _note(self, answer: Answer, links: int) -> None:
        self.counts["pushed"] += links
        self.counts["accepted"] += answer.accepted
        self.counts["hits"] += answer.filtered
        self.counts["done"] += answer.done
        self.counts["stale"] += answer.stale
        if answer.full and not self._hurries:
            self._not_full.clear()
        elif answer.full is not None:
            self._not_full.set()
        if not answer.leases and answer.idle is None:
            return
        self._idle = answer.idle
        if answer.generation != self._generation:
            self._generation = answer.generation
            self.recent.forget()
        if answer.leases:
            self._poll_s = SHORTEST_WAIT_S
            self._drain = False
            for lease in answer.leases:
                self._receive(lease)
            if self._hungry:
                self._hungry = False
                self.on_work()

    def _receive(self, lease: Lease) -> None:
        self.counts["popped"] += 1
        try:
            request = seeds.decode(lease.seed, self.spider, priority=lease.priority)
        except BadSeedError as error:
            self.counts["bad"] += 1
            logger.error("Set aside a seed that can't be read: %s", error)  # noqa: TRY400 - the error says it all
            self.put(self.hand.set_aside(lease, str(error)))
        else:
            self.hand.take(lease, request)

    # -- what is rare

    async def _when_idle(self, idle: Idle, state: str) -> None:
        self._drain = idle.drain
        self.workers = idle.workers
        longest_s = self.config.frontier_poll_s
        if idle.wait_ms >= 0:
            longest_s = min(longest_s, max(idle.wait_ms / 1000, SHORTEST_WAIT_S))
        self._poll_s = min(2 * self._poll_s, longest_s)
        if self.hand.unsettled:
            self.sinks.hurry()
        if self.complete or self.is_busy or not self.config.close_when_complete:
            return
        if state == "complete" or (idle.is_complete and await self._finish()):
            self.complete = True
            self.on_complete()

    async def _finish(self) -> bool:
        return await self.nothing_waits() and not self.is_busy and await self.frontier.finish(self._epoch)

    async def _reclaim(self) -> None:
        self._next_reclaim = time.monotonic() + self.config.frontier_lease_s / 2 * random.uniform(0.8, 1.2)
        restarted, suspects, dead = await self.frontier.reclaim()
        if restarted:
            # A tail that was torn inside a script would be half applied at the next restart: have it written anew.
            await self.frontier.rewrite_log()
        if suspects or dead:
            logger.warning("Took over %d seeds of dead workers; set aside %d that killed theirs", suspects, dead)
        self.counts["reclaimed"] += suspects
        self.counts["buried"] += dead

    def _on_trouble(self, error: FrontierError | None) -> None:
        if error is None:
            self._next_reclaim = 0.0  # if Redis restarted, its log is to be written anew before it may do so again

    async def _reopen(self, links: list[Link]) -> None:
        """Begin the session again: it expired, or Redis lost its last moments.

        Of a page that was begun, some links may be gone with those moments: it goes back to the queue. What was taken
        and not begun is kept where the server still knows of it.
        """
        self.counts["reopened"] += 1
        held = self.hand.tokens_ahead
        # Start requests may be among the links that have to be sent again.
        opened = await self.frontier.open(begin=False, starting=True, held=held, patient=True)
        logger.warning(
            "Redis lost this session or its last moments: %d begun pages go back, %d of %d taken seeds are gone",
            len(self.hand.pages) - len(held),
            len(opened.missing),
            len(held),
        )
        self.hand.void(opened.missing)
        self.hand.unsettled.difference_update(self.outbox.rewind(opened.was, links))
        self.recent.forget()
        self._generation = opened.generation
