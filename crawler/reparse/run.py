"""One run: which pages are to be parsed again, how far it is, and what became of them."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from scrapy import Request
from scrapy.http import Response

from crawler.storage.stored import Selection

#: Troubles that are named; all are counted.
MAX_NAMED = 20

#: Counts of what went wrong, and how to say so.
TROUBLES = {
    "unreadable": "pages without a seed that this spider can read",
    "failed": "callbacks that raised",
    "not_fetched": "downloads that callbacks or pipelines wanted, and did not get",
    "failed_items": "items at which a pipeline raised",
    "rejected": "items that can't be stored",
}


def _now() -> datetime:
    """Return the time as MongoDB holds it, in whole milliseconds."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass
class Run:
    """Hold what the parts of a run share.

    counts: `read` pages came from MongoDB, and `parsed` ones reached a callback, which gave `requests`; `items` passed
    all pipelines, and are `new`, `changed`, `unchanged`, or `outdated` (another is there, from a page that was fetched
    later); `dropped` ones did not pass; and the TROUBLES.
    """

    selection: Selection
    #: Pages at most; 0: all.
    limit: int = 0
    #: Whether nothing is to be written.
    is_dry: bool = False
    #: What the items get as `parsed_at`: all the same, so that those which did not come again can be told.
    began_at: datetime = field(default_factory=_now)
    counts: Counter[str] = field(default_factory=Counter)
    #: The first ones, in words.
    troubles: list[str] = field(default_factory=list)
    #: How much of `raw_pages` was passed, 0 to 1; None where that can't be told.
    progress: float | None = None
    #: Why it ended early, or could not begin.
    ended: str = ""
    _waiting: dict[Request, Response] = field(default_factory=dict)
    _taken: asyncio.Event = field(default_factory=asyncio.Event)
    _begin_s: float = 0.0

    def begin(self) -> None:
        """Note that the pages begin to come."""
        self._begin_s = time.monotonic()

    @property
    def has_begun(self) -> bool:
        """Tell whether it could begin."""
        return self._begin_s > 0

    def note_read(self, key: bytes) -> None:
        """Note that the page with this `_id` came from MongoDB."""
        self.counts["read"] += 1
        if self.selection.order == "_id":  # fingerprints, which are spread evenly
            self.progress = int.from_bytes(key[:4]) / (1 << 32)

    def offer(self, request: Request, response: Response) -> None:
        """Keep a page's response until its request asks for it."""
        self._waiting[request] = response

    def is_offered(self, request: Request) -> bool:
        """Tell whether *request* is of a page, and not one that a callback gave."""
        return request in self._waiting

    def take(self, request: Request) -> Response | None:
        """Return the response to *request*; None: it is of no stored page."""
        self._taken.set()
        return self._waiting.pop(request, None)

    async def wait_for_room(self, limit: int) -> None:
        """Return when fewer than *limit* pages wait."""
        while len(self._waiting) >= limit:
            self._taken.clear()
            await self._taken.wait()

    def note_trouble(self, kind: str, url: str, why: object) -> None:
        """Count a trouble, one of TROUBLES, with the page or item at *url*."""
        self.counts[kind] += 1
        if len(self.troubles) < MAX_NAMED:
            self.troubles.append(f"{url}: {why}")

    @property
    def went_wrong(self) -> bool:
        """Tell whether anything did."""
        return bool(self.ended) or any(self.counts[kind] for kind in TROUBLES)

    @property
    def took_s(self) -> float:
        """Return the seconds since it began."""
        return max(time.monotonic() - self._begin_s, 1e-9)
