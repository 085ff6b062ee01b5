"""Where what pages bring goes, seen as one: until all of it is durable there, their leases are not acknowledged."""

import asyncio
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler


class Sink(Protocol):
    """Some place for pages or items."""

    def pending(self) -> asyncio.Future[None] | None:
        """Return what resolves when all that was given until now is durable; None if it is. It never fails."""

    @property
    def full(self) -> bool:
        """Tell whether no more pages should be fetched for now."""

    def hurry(self) -> None:
        """Write soon what waits for company."""


class Sinks:
    """Hold the sinks of one crawl; each adds itself when it is built."""

    def __init__(self) -> None:
        self._sinks: list[Sink] = []

    @classmethod
    def of(cls, crawler: Crawler) -> "Sinks":
        """Return those of *crawler*."""
        if crawler not in _all:
            _all[crawler] = cls()
        return _all[crawler]

    def add(self, sink: Sink) -> None:
        """Have the acknowledgement of pages wait for one more."""
        self._sinks.append(sink)

    def pending(self) -> asyncio.Future[Any] | None:
        """Return what resolves when all that all were given until now is durable; None if it is.

        It may be shared by many: use `add_done_callback`, and never cancel it.
        """
        waiting = [future for sink in self._sinks if (future := sink.pending()) is not None]
        if len(waiting) > 1:
            return asyncio.gather(*waiting)
        return waiting[0] if waiting else None

    @property
    def full(self) -> bool:
        """Tell whether any of them is full."""
        return any(sink.full for sink in self._sinks)

    def hurry(self) -> None:
        """Have all of them write soon."""
        for sink in self._sinks:
            sink.hurry()


_all: WeakKeyDictionary[Crawler, Sinks] = WeakKeyDictionary()
