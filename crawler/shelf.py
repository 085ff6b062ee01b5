"""What the caches of a crawl stand on: a memory of values, and a line to Redis that is passed by when that is away."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler

from crawler.config import Config
from crawler.errors import FrontierDownError, SeedbedError
from crawler.frontier.calls import Call
from crawler.frontier.client import translated
from crawler.sideline import line_for

logger = logging.getLogger(__name__)

#: What a key holds begins with one of these: a packed value follows, or who makes it.
VALUE, LOCK = b"\x01", b"\x00"

#: How long a value is remembered without asking Redis, and how much may be.
REMEMBER_S = 60.0
REMEMBER_BYTES = 16 << 20
#: What a remembered value takes besides itself, about.
_OVERHEAD_BYTES = 300

#: How long Redis may take to answer, how long it is left alone when it did not, and how often that is said.
TIMEOUT_S, AWAY_S, WARN_EVERY_S = 2.0, 10.0, 60.0
#: Connections that are used at once.
CONNECTIONS = 4


class Memory:
    """Remember packed values, each until it ends, and those that were used last rather than others."""

    def __init__(self, limit_bytes: int = REMEMBER_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return the value of *key*, if it is remembered."""
        if key not in self._kept:
            return None
        until_s, packed = self._kept[key]
        if until_s <= time.monotonic():
            self.drop(key)
            return None
        self._kept.move_to_end(key)
        return packed

    def put(self, key: str, packed: bytes, lifetime_s: float) -> None:
        """Remember a value for *lifetime_s*, a minute at most."""
        self.drop(key)
        self._kept[key] = (time.monotonic() + min(lifetime_s, REMEMBER_S), packed)
        self._size_bytes += len(packed) + _OVERHEAD_BYTES
        while self._size_bytes > self._limit_bytes:
            self.drop(next(iter(self._kept)))

    def drop(self, key: str, packed: bytes | None = None) -> None:
        """Forget the value of *key*, or, given *packed*, only if it is that one."""
        if key in self._kept and packed in {None, self._kept[key][1]}:
            self._size_bytes -= len(self._kept.pop(key)[1]) + _OVERHEAD_BYTES


class CacheLine:
    """Ask Redis. Never raises: without an answer it says so with None, False, and passes Redis by for a while."""

    def __init__(self, crawler: Crawler) -> None:
        self._line = line_for(crawler, TIMEOUT_S)
        self._gate = asyncio.Semaphore(CONNECTIONS)
        self._away_until_s = 0.0
        self._next_warning_s = 0.0

    async def find(self, key: str, lock: bytes, lock_s: float) -> tuple[bytes, float] | None:
        """Return what *key* holds and for how long, seconds; where there is nothing, *lock*, which is there now."""
        reply = await self._ask(lambda: self._line.one(Call("find", [key], [lock, int(lock_s * 1000)])))
        return (reply[0], int(reply[1]) / 1000) if reply is not None else None

    async def put(self, key: str, packed: bytes, lifetime_s: float) -> bool:
        """Have *key* hold a value for a time; tell whether it does."""
        lifetime_ms = max(1, int(lifetime_s * 1000))
        return bool(await self._ask(lambda: self._line.command(key, "SET", key, packed, "PX", lifetime_ms)))

    async def unset(self, key: str, held: bytes) -> bool:
        """Remove *key* if it holds *held*; tell whether it did."""
        return bool(await self._ask(lambda: self._line.one(Call("unset", [key], [held]))))

    async def delete(self, key: str) -> None:
        """Remove *key*."""
        await self._ask(lambda: self._line.command(key, "DEL", key))

    async def _ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        async with self._gate:
            if time.monotonic() < self._away_until_s:
                return None
            try:
                try:
                    return await self._once(call)
                except FrontierDownError:
                    return await self._once(call)  # the connection may be one that idled while Redis was restarted
            except SeedbedError as error:
                now_s = time.monotonic()
                if isinstance(error, FrontierDownError):
                    self._away_until_s = now_s + AWAY_S
                if now_s >= self._next_warning_s:
                    self._next_warning_s = now_s + WARN_EVERY_S
                    logger.warning("%s. Meanwhile each worker makes by itself what all could share", error)
                return None

    async def _once(self, call: Callable[[], Awaitable[Any]]) -> Any:
        with translated(self._line.where):
            return await call()


class Shelf:
    """Hold what all caches of one crawl share."""

    def __init__(self, crawler: Crawler) -> None:
        self.namespace = Config.from_settings(crawler.settings).frontier_namespace
        self.line = CacheLine(crawler)
        self.memory = Memory()
        #: What is being looked for or made, by its key, each for all who ask for it.
        self.making: dict[str, asyncio.Task[bytes]] = {}

    @classmethod
    def of(cls, crawler: Crawler) -> "Shelf":
        """Return the one of *crawler*. Raises ConfigError."""
        if crawler not in _shelves:
            _shelves[crawler] = cls(crawler)
        return _shelves[crawler]


_shelves: WeakKeyDictionary[Crawler, Shelf] = WeakKeyDictionary()
