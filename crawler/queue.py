"""Queues of compact seeds for scrapy-redis's own scheduler: its SCHEDULER_QUEUE_CLASS.

They keep its interface and its keys, and differ from its queues in this: nothing that is read is executed; a request
that can't be stored, or a seed that can't be read, is logged, counted and passed over alone; equal priorities come in
the order in which they were pushed; and a pop never waits, as that would hold up the event loop
(SCHEDULER_IDLE_BEFORE_CLOSE has no effect). As with its queues, a popped request is in no queue: a worker that is
killed loses those that it was downloading. The scheduler of this project does not.
"""

import logging
from typing import Any, ClassVar, cast

from redis import Redis
from redis.client import NEVER_DECODE
from scrapy import Request, Spider

from crawler.errors import BadSeedError, ConfigError, FrontierError, NotDataError, SeedError
from crawler.seeds import decode, encode

logger = logging.getLogger(__name__)


class _Queue:
    """Keep the requests of one spider under *key*, and the seeds that can't be read, with why, under `key:dead`.

    Raises ConfigError for a serializer, and FrontierError for a key that something else wrote.
    """

    def __init__(self, server: Redis, spider: Spider, key: str, serializer: object = None) -> None:
        if serializer is not None:
            raise ConfigError("SCHEDULER_SERIALIZER: this queue has a form of its own for requests; unset it")
        self.server = server
        self.spider = spider
        self.key = key % {"spider": spider.name}
        self._check_key()

    def __len__(self) -> int:
        """Return how many requests are queued."""
        raise NotImplementedError

    def push(self, request: Request) -> None:
        """Store *request*; if that can't be, log why, count it and go on."""
        try:
            self._put(request)
        except NotDataError as error:
            self._report("refused", error)

    def pop(self, timeout: float = 0) -> Request | None:  # noqa: ARG002 - the scheduler passes it
        """Return the next request, or None; seeds that can't be read are set aside on the way. Never waits."""
        while taken := self._take():
            seed, priority = taken
            try:
                return decode(seed, self.spider, priority=priority)
            except BadSeedError as error:
                self._report("dead", error)
                self._call("RPUSH", f"{self.key}:dead", f"{error}\n".encode() + seed)
        return None

    def clear(self) -> None:
        """Delete what is queued; what was set aside stays."""
        raise NotImplementedError

    def _check_key(self) -> None:
        raise NotImplementedError

    def _put(self, request: Request) -> None:
        raise NotImplementedError

    def _take(self) -> tuple[bytes, int | None] | None:
        raise NotImplementedError

    def _call(self, *command: Any) -> Any:
        """Run a command on bytes, also with a client that turns answers into text."""
        return self.server.execute_command(*command, **{NEVER_DECODE: True})  # type: ignore[no-untyped-call]

    def _report(self, what: str, error: SeedError) -> None:
        logger.error("%s", error, extra={"spider": self.spider})
        self.spider.crawler.stats.inc_value(f"scheduler/{what}/redis")

    def _refuse_key(self, holds: str) -> FrontierError:
        return FrontierError(
            f"{self.key} holds {holds}, not what {type(self).__name__} stores: let the workers that use it finish, "
            "delete it, or set another SCHEDULER_QUEUE_KEY"
        )


class _ListQueue(_Queue):
    """One list; the oldest is at its head."""

    _pop: ClassVar[str]

    def __len__(self) -> int:
        return self.server.llen(self.key)

    def clear(self) -> None:
        """Delete what is queued; what was set aside stays."""
        self.server.delete(self.key)

    def _check_key(self) -> None:
        kind = self._call("TYPE", self.key)
        if kind not in (b"none", b"list"):
            raise self._refuse_key(f"a {kind.decode()}")
        if (self._call("LINDEX", self.key, 0) or b"").startswith(b"\x80"):
            raise self._refuse_key("pickled requests")

    def _put(self, request: Request) -> None:
        self._call("RPUSH", self.key, encode(request, self.spider))

    def _take(self) -> tuple[bytes, None] | None:
        seed = self._call(self._pop, self.key)
        return None if seed is None else (seed, None)


class FifoQueue(_ListQueue):
    """The oldest first. Keys: list `key`."""

    _pop = "LPOP"


class LifoQueue(_ListQueue):
    """The newest first. Keys: list `key`."""

    _pop = "RPOP"


class PriorityQueue(_Queue):
    """The highest priority first, and within it the oldest: exact for priorities of up to 53 bits.

    Keys: sorted set `key`, each priority that has requests, scored by itself; lists `key:<priority>`.
    """

    def __len__(self) -> int:
        return cast("int", self._call("EVAL", _LENGTH, 1, self.key))

    def clear(self) -> None:
        """Delete what is queued; what was set aside stays."""
        self._call("EVAL", _CLEAR, 1, self.key)

    def _check_key(self) -> None:
        kind = self._call("TYPE", self.key)
        if kind not in (b"none", b"zset"):
            raise self._refuse_key(f"a {kind.decode()}")
        for member in self._call("ZRANGE", self.key, 0, 0):
            if not member.removeprefix(b"-").isdigit():
                raise self._refuse_key("pickled requests")

    def _put(self, request: Request) -> None:
        if not isinstance(request.priority, int):
            raise NotDataError(f"{request}: priority is {request.priority!r}, and an integer is wanted")
        seed = encode(request, self.spider, priority=False)
        self._call("EVAL", _PUSH, 1, self.key, int(request.priority), seed)

    def _take(self) -> tuple[bytes, int] | None:
        found = self._call("EVAL", _POP, 1, self.key)
        return (found[1], int(found[0])) if found else None


# Each in the order in which a full server may refuse: the first write or none.

_PUSH = """
redis.call('RPUSH', KEYS[1] .. ':' .. ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1])
"""

_POP = """
local priority = redis.call('ZREVRANGE', KEYS[1], 0, 0)[1]
if not priority then return nil end
local list = KEYS[1] .. ':' .. priority
local seed = redis.call('LPOP', list)
if redis.call('EXISTS', list) == 0 then redis.call('ZREM', KEYS[1], priority) end
return {priority, seed}
"""

_LENGTH = """
local length = 0
for _, priority in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  length = length + redis.call('LLEN', KEYS[1] .. ':' .. priority)
end
return length
"""

_CLEAR = """
for _, priority in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  redis.call('UNLINK', KEYS[1] .. ':' .. priority)
end
redis.call('UNLINK', KEYS[1])
"""
