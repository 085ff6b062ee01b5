"""The task that brings what producers wrote into start keys to the frontier, whenever there is room."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from scrapy import Request, Spider
from scrapy.settings import BaseSettings

from crawler import seeds
from crawler.config import Config
from crawler.conversation import Conversation
from crawler.errors import BadSeedError, ConfigError, SeedError
from crawler.frontier.calls import bounded
from crawler.frontier.messages import FILTERED, UNFILTERED, Link
from crawler.frontier.start_keys import Batch, StartKeys
from crawler.start_urls import parse_start

logger = logging.getLogger(__name__)


def start_keys_of(config: Config, spider: Spider, settings: BaseSettings) -> list[str]:
    """Return the start keys of *spider*.

    Raises ConfigError where scrapy-redis would read another one, whose entries nobody would take.
    """
    keys = config.start_keys(spider.name)
    for name, theirs in (
        ("redis_key", getattr(spider, "redis_key", None)),
        ("REDIS_START_URLS_KEY", settings.get("REDIS_START_URLS_KEY")),
    ):
        key = str(theirs or "").replace("%(name)s", spider.name)
        if key and key not in keys:
            raise ConfigError(
                f"spider '{spider.name}': {name} = {theirs!r} is not read. Take it out, and set "
                f"START_URLS_KEY = {key!r}: it says where producers write (now {', '.join(keys)})"
            )
    return keys


class Intake:
    """Turn entries of start keys into seeds, in batches; each entry that makes no sense is set aside alone.

    A spider may have its own `make_request_from_data(data)`, as for scrapy-redis: it gets an entry's bytes and returns
    a request, or several, or None.
    """

    def __init__(
        self,
        config: Config,
        spider: Spider,
        start_keys: StartKeys,
        talk: Conversation,
        fingerprint: Callable[[Request], bytes],
    ) -> None:
        self._config = config
        self._spider = spider
        self._start_keys = start_keys
        self._talk = talk
        self._fingerprint = fingerprint
        self._wake = asyncio.Event()
        self._closing = False

    async def run(self) -> None:
        """Work until `close`."""
        while not self._closing:
            await self._talk.wait_for_room()
            if self._closing:
                return
            batch = await self._start_keys.take(self._config.frontier_batch)
            if batch is not None:
                await self._bring(batch)
            else:
                await self._rest()

    def close(self) -> None:
        """Stop after what is under way."""
        self._closing = True
        self._wake.set()

    async def is_empty(self) -> bool:
        """Tell whether no entry waits, and none is on its way with any worker."""
        return not await self._start_keys.any()

    async def _rest(self) -> None:
        # Many idle workers ask no more often, together, than two would.
        pause_s = self._config.frontier_poll_s * max(1.0, self._talk.workers / 2) * random.uniform(0.5, 1)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._wake.wait()

    async def _bring(self, batch: Batch) -> None:
        bad: list[tuple[str, bytes]] = []
        for entry, score in batch.entries:
            try:
                for request in self._requests(entry):
                    self._talk.put(self._link(request, score))
            except SeedError as error:
                logger.error("Set aside an entry of %s: %s", batch.key, error)  # noqa: TRY400 - the error says it all
                bad.append((str(error), entry))
        if bad:
            self._talk.counts["bad"] += len(bad)
            await self._start_keys.bury(bad)
        await self._talk.outbox.wait_sent()
        await self._start_keys.drop(batch)

    def _requests(self, entry: bytes) -> Iterable[Request]:
        make = getattr(self._spider, "make_request_from_data", None)
        if make is None:
            return parse_start(entry, self._spider)
        try:
            return list(_flat(make(entry)))
        except Exception as error:
            raise BadSeedError(f"make_request_from_data({entry!r}) raised {error!r}") from error

    def _link(self, request: Request, score: float | None) -> Link:
        priority = bounded(score) if score is not None and not request.priority else request.priority
        seed = seeds.encode(request, self._spider, priority=False)
        if request.dont_filter or self._config.start_urls_dont_filter:
            return Link(priority, b"", UNFILTERED, seed)
        return Link(priority, self._fingerprint(request), FILTERED, seed)


def _flat(made: Any) -> Iterator[Request]:
    if made is None:
        return
    if isinstance(made, Request):
        yield made
    else:
        yield from made
