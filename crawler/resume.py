"""How far a spider has come in the lists of a site, kept in Redis for all workers and for the next crawl."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler

from crawler.config import Config
from crawler.engine_hooks import is_stopping
from crawler.errors import FrontierDownError, FrontierFullError
from crawler.frontier.calls import Call
from crawler.frontier.keys import Keys
from crawler.frontier.line import Line
from crawler.sideline import line_for

T = TypeVar("T")

#: The pause between two tries while Redis is away, seconds.
RETRY_S = 0.5

_TOTAL = "total:"


@dataclass(frozen=True, slots=True)
class Progress:
    """Hold what is known of one site; all of it is empty where nothing was saved within RESUME_LIFETIME_S."""

    #: The last page of the list that was dealt with; 0: none.
    page: int = 0
    #: The newest entry that was seen.
    timestamp: datetime | None = None
    #: The spider's own word for how it stands.
    status: str = ""
    totals: Mapping[str, int] = field(default_factory=dict)
    saved_at: datetime | None = None

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes]) -> Self:
        """Return what the hash in Redis says."""
        text = {name.decode(): value.decode() for name, value in fields.items()}
        return cls(
            int(text.get("page", 0)),
            _moment(float(text["timestamp"])) if "timestamp" in text else None,
            text.get("status", ""),
            {name.removeprefix(_TOTAL): int(count) for name, count in text.items() if name.startswith(_TOTAL)},
            _moment(int(text["saved_ms"]) / 1000) if "saved_ms" in text else None,
        )


class ResumeState:
    """Keep how far a spider has come in one site's lists.

    While Redis is away or full each call waits for it, as the crawl does; once the worker is to stop, it raises
    FrontierDownError or FrontierFullError. One round trip a call.
    """

    def __init__(self, crawler: Crawler, line: Line, keys: Keys, site: str, lifetime_s: float) -> None:
        self._crawler = crawler
        self._line = line
        self._keys = keys
        self._site = site
        self._lifetime_ms = int(lifetime_s * 1000)

    @classmethod
    def of(cls, crawler: Crawler, site: str) -> Self:
        """Return the state of *site*, any text that tells a spider's lists apart. Raises ConfigError."""
        config = Config.from_settings(crawler.settings)
        if crawler not in _lines:
            _lines[crawler] = line_for(crawler)
        keys = Keys.of(crawler.spidercls.name, config.frontier_namespace)
        return cls(crawler, _lines[crawler], keys, site, config.resume_lifetime_s)

    async def load(self) -> Progress:
        """Return how far the spider has come."""
        key = self._keys.resume(self._site)
        client: Any = self._line.clients(key)
        return Progress.of(await self._insist(lambda: client.hgetall(key)))

    async def save(
        self,
        *,
        page: int | None = None,
        timestamp: datetime | None = None,
        status: str = "",
        add: Mapping[str, int] | None = None,
    ) -> bool:
        """Note a step forward, all of it at once; return False where it was none, and nothing was changed.

        A step is forward if *page* is beyond the last one; without a page, if *timestamp* is later; without both,
        always. So a page that is fetched again neither goes back nor counts twice. *add* is added to the totals. A
        timestamp without a zone is taken for UTC.
        """
        args: list[Any] = [self._lifetime_ms, self._site, "" if page is None else page]
        args += ["" if timestamp is None else f"{_utc(timestamp).timestamp():.6f}", status]
        for name, count in (add or {}).items():
            args += [name, count]
        call = Call("mark", [self._keys.resume(self._site), self._keys.resumes], args)
        return bool(await self._insist(lambda: self._line.one(call)))

    async def forget(self) -> None:
        """Begin the list anew."""
        key, sites = self._keys.resume(self._site), self._keys.resumes
        await self._insist(lambda: self._line.command(key, "DEL", key))
        await self._insist(lambda: self._line.command(sites, "ZREM", sites, self._site))

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await self._line.insist(call, patient=False)
            except (FrontierDownError, FrontierFullError):
                if is_stopping(self._crawler):
                    raise
                await asyncio.sleep(RETRY_S)


_lines: WeakKeyDictionary[Crawler, Line] = WeakKeyDictionary()


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _moment(since_1970_s: float) -> datetime:
    return datetime.fromtimestamp(since_1970_s, UTC)
