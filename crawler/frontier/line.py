"""The line to Redis: several verbs in one round trip, repeated until Redis has answered."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from crawler.errors import FrontierDownError, FrontierError, FrontierFullError
from crawler.frontier.calls import Call
from crawler.frontier.client import translated
from crawler.frontier.verbs import declared, verb

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Waits between two tries while Redis is away, seconds.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 1.0

#: Kinds of conversations: an exchange pushes, completes and pops.
OPERATIONS = ("exchange", "open", "release", "reclaim", "finish", "status")


class Line:
    """Send verbs to the server that holds their keys, however often it is away."""

    def __init__(self, clients: Callable[[str], Redis], where: str) -> None:
        #: Gives the client of the server that holds a key.
        self.clients = clients
        #: Where Redis is, for people.
        self.where = where
        #: Called with the error, or None, when Redis goes away or comes back.
        self.on_trouble: Callable[[FrontierError | None], None] = _ignore
        #: Called after each conversation with its kind (see OPERATIONS) and how long it took, seconds.
        self.on_call: Callable[[str, float], None] = _ignore
        self._in_trouble = False

    async def insist(self, call: Callable[[], Awaitable[T]], *, patient: bool = True) -> T:
        """Return what *call* does, which is repeated, with growing waits, while Redis is away or full.

        Raises FrontierError when Redis refuses for a reason that waiting won't mend; at once, unless *patient*.
        """
        wait_s = FIRST_WAIT_S
        while True:
            try:
                with translated(self.where):
                    answer = await call()
            except (FrontierDownError, FrontierFullError) as error:
                if not patient:
                    raise
                if not self._in_trouble:
                    self._in_trouble = True
                    logger.warning("%s. Waiting for it; nothing is lost", error)
                    self.on_trouble(error)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            else:
                if self._in_trouble:
                    self._in_trouble = False
                    logger.info("Redis at %s answers again", self.where)
                    self.on_trouble(None)
                return answer

    async def command(self, key: str, *command: str | bytes | int) -> Any:
        """Run one of Redis's own commands where *key* is, once."""
        return await self.clients(key).execute_command(*command)  # type: ignore[no-untyped-call]

    async def one(self, call: Call) -> Any:
        """Run one verb, once."""
        return (await self.many([call]))[0]

    async def many(self, calls: Sequence[Call]) -> list[Any]:
        """Run verbs one after another, once, in one round trip; raises the first error that any of them gave."""
        replies = await self._send("EVALSHA", calls)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            # Nothing was skipped: a numbered call is refused until the one before it was applied.
            replies = await self._send("EVAL", calls)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def _send(self, command: str, calls: Sequence[Call]) -> list[Any]:
        pipeline = self.clients(calls[0].keys[0]).pipeline(transaction=False)
        for name, keys, args in calls:
            script, names = verb(name).sha if command == "EVALSHA" else verb(name).text, declared(keys)
            pipeline.execute_command(command, script, len(names), *names, *args)
        begin_s = time.perf_counter()
        replies = await pipeline.execute(raise_on_error=False)
        self.on_call(name if name in OPERATIONS else "exchange", time.perf_counter() - begin_s)
        return replies


def _ignore(*_: object) -> None:
    """Stand in where nobody wants to be told."""
