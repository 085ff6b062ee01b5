"""Dedup in a fraction of the memory for scrapy-redis's own scheduler: its DUPEFILTER_CLASS."""

from typing import Any, Self, cast

from redis import Redis
from redis.exceptions import ResponseError
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import RequestFingerprinterProtocol
from scrapy_redis import defaults  # type: ignore[import-untyped]
from scrapy_redis.connection import get_redis_from_settings  # type: ignore[import-untyped]

from crawler.config import DedupSettings
from crawler.errors import FrontierError
from crawler.frontier.dedup import LUA, Dedup

_ADMIT = f"""{LUA}
local new, refused = admit(dedup_of(KEYS[1], KEYS[2], unpack(ARGV, 1, 4)), {{unpack(ARGV, 5)}})
if refused then return redis.error_reply(refused) end
return new
"""
_FORGET = f"""{LUA}
forget({{key = KEYS[1], meta = KEYS[2]}})
"""


class BloomDupeFilter(RFPDupeFilter):
    """Note in Redis which requests were seen; of two workers that ask at once, one is told that it is new.

    Settings: DEDUP, DEDUP_CAPACITY, DEDUP_ERROR_RATE and DEDUP_TTL_S as for this project's frontier, the connection's,
    SCHEDULER_DUPEFILTER_KEY and DUPEFILTER_DEBUG as for scrapy-redis, and REQUEST_FINGERPRINTER_CLASS.
    Keys: *key*, and those that begin with it and a colon.
    Raises FrontierError where *key* holds something else, or what was made with other settings.
    """

    def __init__(
        self,
        server: Redis,
        key: str,
        dedup: Dedup,
        debug: bool = False,
        *,
        fingerprinter: RequestFingerprinterProtocol | None = None,
    ) -> None:
        super().__init__(debug=debug, fingerprinter=fingerprinter)
        self.server = server
        self.key = key
        self._dedup = dedup
        self._admit = server.register_script(_ADMIT)
        self._forget = server.register_script(_FORGET)
        self._run(self._admit, *dedup.argv)  # of nothing: refuses what would be refused later, request by request

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Return the filter of *spider*, for scrapy-redis's scheduler."""
        settings = spider.settings
        key = settings.get("SCHEDULER_DUPEFILTER_KEY", defaults.SCHEDULER_DUPEFILTER_KEY)
        return cls(
            get_redis_from_settings(settings),
            key % {"spider": spider.name},
            Dedup.of(DedupSettings.from_settings(settings)),
            settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=spider.crawler.request_fingerprinter,
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter of *crawler*'s spider, for Scrapy's own scheduler."""
        return cls.from_spider(cast("Spider", crawler.spider))  # which is there before any scheduler

    def request_seen(self, request: Request) -> bool:
        """Tell whether *request* was seen, and note that it is from now on. One round trip."""
        return bool(self._run(self._admit, *self._dedup.argv, self.fingerprinter.fingerprint(request)) == [0])

    def clear(self) -> None:
        """Forget what was seen, whatever settings it was kept with."""
        self._run(self._forget)

    def close(self, reason: str) -> None:  # noqa: ARG002 - Scrapy passes it
        """Forget what was seen: Scrapy's own scheduler, which alone calls this, has then lost its queue too."""
        self.clear()

    def _run(self, script: Any, *args: Any) -> Any:
        try:
            return script(keys=[self.key, f"{self.key}:meta"], args=args)
        except ResponseError as error:
            raise FrontierError(
                f"{error} (to clear it, delete {self.key} and the keys that begin with {self.key}:)"
            ) from error
