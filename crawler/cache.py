"""Values that all workers share for the lifetime of their kind: robots.txt, sites' configuration, tokens, results.

A value is made once, by one worker; the others wait for it. It is data (crawler/plaindata.py), never code. The cache
makes nothing fail: while Redis is away or full, each worker makes its values itself.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

from scrapy.crawler import Crawler

from crawler.errors import NotDataError
from crawler.frontier.keys import shared_value
from crawler.plaindata import ForeignValueError, pack, unpack
from crawler.shelf import LOCK, VALUE, Shelf

#: A value that takes more, packed, is made anew each time that it is asked for.
MAX_BYTES = 1 << 20
#: How long a worker may take to make a value before the others make it themselves.
PATIENCE_S = 30.0
#: The first pause of those who wait for another worker, and the longest.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5

Lifetime = float | Callable[[Any], float]

_ANY: Any = object()


class Cache:
    """Hold the values of one kind, by name.

    A worker remembers a value for a minute without asking Redis again, so that long may pass until a change by another
    worker shows. Scrapy's statistics count `cache/<kind>/found`, `made`, `passed_by` (Redis was away), `too_large`.
    """

    def __init__(self, crawler: Crawler, kind: str, lifetime_s: Lifetime, shelf: Shelf) -> None:
        self._crawler = crawler
        self._kind = kind
        self._lifetime_s = lifetime_s
        self._shelf = shelf

    @classmethod
    def of(cls, crawler: Crawler, kind: str, lifetime_s: Lifetime) -> Self:
        """Return the cache of the values of one *kind*: a word, such as `token`.

        lifetime_s: how long each lives, seconds, or a function that says so of a value; 0: it is not kept. All spiders
        of one FRONTIER_NAMESPACE share them. Raises ValueError, or ConfigError where a setting is wrong.
        """
        if not re.fullmatch(r"[\w.-]+", kind):
            raise ValueError(f"{kind!r}: a kind of cached values is named by letters, digits and _ . -")
        return cls(crawler, kind, lifetime_s, Shelf.of(crawler))

    async def get(self, name: str, default: Any = None) -> Any:
        """Return the value *name*, or *default* where there is none. One round trip, or none."""
        key = self._key(name)
        found = self._remembered(key) or await self._look(key, b"")
        return unpack(found[1:]) if found.startswith(VALUE) else default

    async def set(self, name: str, value: Any) -> None:
        """Keep *value* for the lifetime of its kind. One round trip. Raises NotDataError where it is no data."""
        key, packed = self._key(name), self._pack(name, value)
        if not await self._keep(key, value, packed):
            await self._shelf.line.delete(key)  # what is there is out of date

    async def get_or_make(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """Return the value *name*; where there is none, one of the workers awaits *make*, for all of them.

        What *make* raises is raised by the worker that called it, and the next one tries. It costs a round trip, or
        none; two more for whoever makes it. Raises NotDataError where what is made is no data.
        """
        key = self._key(name)
        packed, making = self._remembered(key), self._shelf.making
        if packed is None:
            if key not in making:
                making[key] = asyncio.create_task(self._find_or_make(name, key, make))
                making[key].add_done_callback(lambda _: making.pop(key))
            packed = await asyncio.shield(making[key])
        return unpack(packed[1:])

    async def forget(self, name: str, value: Any = _ANY) -> None:
        """Remove the value *name*, or, given *value*, only if it still is that one: a token that was refused, say.

        One round trip.
        """
        key = self._key(name)
        if value is _ANY:
            self._shelf.memory.drop(key)
            await self._shelf.line.delete(key)
        else:
            packed = self._pack(name, value)
            self._shelf.memory.drop(key, packed)
            await self._shelf.line.unset(key, packed)

    # -- inside

    async def _find_or_make(self, name: str, key: str, make: Callable[[], Awaitable[Any]]) -> bytes:
        lock, pause_s, until_s = LOCK + os.urandom(12), _FIRST_PAUSE_S, time.monotonic() + PATIENCE_S
        while (found := await self._look(key, lock)).startswith(LOCK) and found != lock:
            if time.monotonic() > until_s:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if found.startswith(VALUE):
            return found
        self._count("made")
        kept = False
        try:
            value = await make()
            packed = self._pack(name, value)
            kept = await self._keep(key, value, packed)
        finally:
            if not kept:  # whoever waits for it need not wait any longer
                await self._shelf.line.unset(key, lock)
        return packed

    async def _look(self, key: str, lock: bytes) -> bytes:
        """Return the packed value, or the lock that is there; b"" where there is neither, or Redis is passed by."""
        reply = await self._shelf.line.find(key, lock, PATIENCE_S)
        if reply is None:
            self._count("passed_by")
            return b""
        found, left_s = reply
        if not found or found.startswith(LOCK):
            return found
        if not _is_readable(found):
            self._count("unreadable")
            return await self._look(key, lock) if await self._shelf.line.unset(key, found) else b""
        self._count("found")
        self._shelf.memory.put(key, found, left_s)
        return found

    async def _keep(self, key: str, value: Any, packed: bytes) -> bool:
        """Tell whether Redis holds the value now."""
        lifetime_s = self._lifetime_s(value) if callable(self._lifetime_s) else self._lifetime_s
        if len(packed) > MAX_BYTES:
            self._count("too_large")
            lifetime_s = 0
        if lifetime_s <= 0:
            self._shelf.memory.drop(key)
            return False
        self._shelf.memory.put(key, packed, lifetime_s)
        return await self._shelf.line.put(key, packed, lifetime_s)

    def _remembered(self, key: str) -> bytes | None:
        packed = self._shelf.memory.get(key)
        if packed is not None:
            self._count("found")
        return packed

    def _key(self, name: str) -> str:
        return shared_value(self._shelf.namespace, self._kind, name)

    def _pack(self, name: str, value: Any) -> bytes:
        try:
            return VALUE + pack(value)
        except ForeignValueError as error:
            where = "".join(f"[{step!r}]" for step in error.path)
            raise NotDataError(
                f"cached {self._kind} {name!r}: {error.what}{' at ' + where if where else ''} is no data"
            ) from None

    def _count(self, what: str) -> None:
        self._crawler.stats.inc_value(f"cache/{self._kind}/{what}")


def _is_readable(found: bytes) -> bool:
    try:
        unpack(found[1:])
    except (ValueError, TypeError, ArithmeticError, OSError, RecursionError):
        return False
    return found.startswith(VALUE)
