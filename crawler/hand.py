"""What a worker holds: seeds that it took ahead, pages that it works on, pages that it has done."""

from collections import Counter
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler

from crawler.frontier.messages import Ack, Lease, Want


class Page:
    """Hold what this worker knows of one leased request, until it is acknowledged."""

    __slots__ = ("children", "delay_ms", "host", "reason", "seed", "started", "token")

    def __init__(self, lease: Lease, host: str = "", reason: str = "") -> None:
        #: Empty: the lease is lost. Whatever the page gives is stored by whoever has it now.
        self.token = lease.token
        self.seed = lease.seed
        self.host = host
        #: Not 0: the host is busy until its next turn is reported.
        self.delay_ms = lease.delay_ms
        #: (priority, seed) of the children that no filter guards; they go with the acknowledgement.
        self.children: list[tuple[int, bytes]] = []
        #: Not empty: why the seed is to be set aside.
        self.reason = reason
        self.started = False

    @property
    def ack(self) -> Ack:
        """Return the page's acknowledgement."""
        return Ack(self.token, self.reason, self.children)

    def void(self) -> None:
        """Forget the lease: somebody else will fetch this page."""
        self.token = ""
        self.children.clear()


class Hand:
    """Hold the pages of one worker; `size` is how many seeds it takes ahead."""

    def __init__(self, crawler: Crawler, size: int) -> None:
        self.size = size
        #: Requests that are taken ahead or being worked on.
        self.pages: dict[Request, Page] = {}
        #: Pages that are wholly done (or can't be), and not yet acknowledged.
        self.unsettled: set[Page] = set()
        # Scrapy's own: the least busy download slot first, then the highest priority.
        self._ahead: Any = build_from_crawler(DownloaderAwarePriorityQueue, crawler, FifoMemoryQueue, "")

    def __bool__(self) -> bool:
        return bool(self.pages or self.unsettled)

    @property
    def room(self) -> int:
        """Return how many more seeds could be taken ahead."""
        return self.size - len(self._ahead)

    @property
    def is_low(self) -> bool:
        """Tell whether less than a quarter is left, so that it is worth a call of its own to ask for more.

        As one host may take up half of the hand, a crawl of one host asks after each quarter.
        """
        return 4 * len(self._ahead) < self.size

    def take(self, lease: Lease, request: Request) -> None:
        """Take a seed ahead."""
        self.pages[request] = Page(lease, urlparse_cached(request).hostname or "")
        self._ahead.push(request)

    def set_aside(self, lease: Lease, reason: str) -> Page:
        """Take a seed that can't be worked on."""
        page = Page(lease, reason=reason)
        self.unsettled.add(page)
        return page

    def next(self) -> Request | None:
        """Begin the next request."""
        request: Request | None = self._ahead.pop()
        if request is not None:
            self.pages[request].started = True
        return request

    def finish(self, request: Request) -> Page | None:
        """Note that a request is wholly done; None: it is none of the frontier's."""
        page = self.pages.pop(request, None)
        if page is not None:
            self.unsettled.add(page)
        return page

    def want(self, *, started: bool) -> Want:
        """Return what to ask the frontier for: no host may take up more than half of the hand."""
        held = Counter(page.host for page in self.pages.values() if not page.started)
        return Want(self.room, max(1, self.size // 2), held, started)

    @property
    def tokens_ahead(self) -> list[str]:
        """Return the tokens of what was taken and not begun."""
        return [page.token for page in self.pages.values() if not page.started]

    def void(self, missing: frozenset[str]) -> None:
        """Give up the leases of all that was begun, and of what is *missing* at the server."""
        for request, page in list(self.pages.items()):
            if page.started:
                page.void()
            elif page.token in missing:
                del self.pages[request]
        for page in self.unsettled:
            page.void()
        self._drop_gone()

    def withdraw(self, host: str) -> list[str]:
        """Put down what was taken of *host* and not begun; return the tokens, to be given back."""
        taken = {request: page for request, page in self.pages.items() if page.host == host and not page.started}
        for request in taken:
            del self.pages[request]
        if taken:
            self._drop_gone()
        return [page.token for page in taken.values()]

    def _drop_gone(self) -> None:
        ahead = iter(self._ahead.pop, None)
        for request in [request for request in ahead if request in self.pages]:
            self._ahead.push(request)
