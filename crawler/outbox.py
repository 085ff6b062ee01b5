"""What waits to go to Redis, in the order in which it arose: a page's links before the page's acknowledgement."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator

from crawler.frontier.messages import Link
from crawler.hand import Page

#: With `appendfsync everysec` a killed Redis comes back at most some two seconds younger: what is older is on its disk.
DURABLE_S = 5.0


class Outbox:
    """Hold links and pages on their way out, first in, first out; whoever gives more asks `has_room` first.

    It also remembers the links of the last few seconds, for a Redis that loses its last moments.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[Link | Page] = deque()
        self._sent: deque[tuple[int, float, list[Link]]] = deque()
        #: How many entries came in, and how many were sent; who waits for which number.
        self._came = self._went = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._room = asyncio.Event()
        self._room.set()
        #: Since when the oldest entry has waited, monotonic seconds; of no meaning when empty.
        self.waiting_since = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def pages(self) -> Iterator[Page]:
        """Give the pages that wait in it."""
        return (entry for entry in self._entries if isinstance(entry, Page))

    @property
    def has_room(self) -> bool:
        """Tell whether more may come in; it must be half empty again once it was full."""
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        """Return when more may come in."""
        await self._room.wait()

    def put(self, entry: Link | Page) -> None:
        """Add an entry; never refuses, so that a page's links stay together."""
        if not self._entries:
            self.waiting_since = time.monotonic()
        self._entries.append(entry)
        self._came += 1
        if len(self._entries) >= self._limit:
            self._room.clear()

    def take(self, limit: int) -> tuple[list[Link], list[Page]]:
        """Take the first entries: the links are to be sent before the pages."""
        links: list[Link] = []
        pages: list[Page] = []
        for _ in range(min(limit, len(self._entries))):
            entry = self._entries.popleft()
            if isinstance(entry, Page):
                pages.append(entry)
            else:
                links.append(entry)
        if 2 * len(self._entries) <= self._limit:
            self._room.set()
        self.waiting_since = time.monotonic()
        return links, pages

    async def wait_sent(self) -> None:
        """Return when all that came in until now was sent."""
        if self._went < self._came:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((self._came, waiter))
            await waiter

    def note_sent(self, seq: int, links: list[Link]) -> None:
        """Note that what was taken last was sent by the call numbered *seq*; its links are remembered for a while."""
        self._went = self._came - len(self._entries)
        while self._waiters and self._waiters[0][0] <= self._went:
            self._waiters.pop(0)[1].set_result(None)
        now = time.monotonic()
        self._sent.append((seq, now, links))
        while self._sent and self._sent[0][1] < now - DURABLE_S:
            self._sent.popleft()

    def rewind(self, seq: int, unsent: Iterable[Link]) -> list[Page]:
        """Put what Redis lost back in front: the links of the calls after *seq*, then *unsent*; take out all pages."""
        links = [link for number, _, sent in self._sent if number > seq for link in sent]
        pages = list(self.pages)
        waiting = [entry for entry in self._entries if not isinstance(entry, Page)]
        self._entries = deque([*links, *unsent, *waiting])
        # Whoever waits, waits for all that is here now.
        self._came = self._went + len(self._entries)
        self._waiters = [(self._came, waiter) for _, waiter in self._waiters]
        self._sent = deque(call for call in self._sent if call[0] <= seq)  # Redis has them, and may lose them yet
        self.waiting_since = time.monotonic()
        return pages
