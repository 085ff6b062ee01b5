"""The request that a page answers, as a seed (crawler/seeds.py): by it the page can be parsed again."""

import copy
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Headers

from crawler import seeds

#: In a request's meta: it is to be fetched whatever is stored (conditional.py).
UNCONDITIONAL = "unconditional"

#: What Scrapy's downloader and its middlewares note in a request for themselves; `redirect_urls` is for callbacks, too.
_DOWNLOAD_META = frozenset(
    {
        *("download_timeout", "download_slot", "download_latency", "retry_times", "redirect_times", "redirect_ttl"),
        *("proxy", "_scheme_proxy", "_auth_proxy", "cached_response", "_dont_cache", UNCONDITIONAL),
    }
)
_DOWNLOAD_HEADERS = (
    *("Accept", "Accept-Language", "Accept-Encoding", "User-Agent"),
    *("Cookie", "Authorization", "Proxy-Authorization"),
)
_SENT_BEFORE = frozenset({"retry_times", "redirect_times", UNCONDITIONAL})


def seed_of(request: Request, crawler: Crawler) -> bytes:
    """Return the seed of a request whose response is about to go to the spider of *crawler*.

    It is the one that the scheduler made the request of, if it knows; else the request is encoded, without what belongs
    to its download alone, such as cookies and the number of retries. Raises NotDataError. O(1) for most, else O(size).
    """
    if _SENT_BEFORE.isdisjoint(request.meta):
        seed_at_hand = getattr(crawler.engine.scheduler, "seed_of", None)
        seed: bytes | None = seed_at_hand(request) if seed_at_hand else None
        if seed is not None:
            return seed
    spider: Any = crawler.spider
    return seeds.encode(_before_download(request), spider, priority=False)


def _before_download(request: Request) -> Request:
    """Return *request* about as the spider made it."""
    # Not Request.replace(), by which a class of the user's may make something else of it.
    made = copy.copy(request)
    made._meta = {name: value for name, value in request.meta.items() if name not in _DOWNLOAD_META}
    made.headers = Headers(request.headers, encoding=request.encoding)
    for name in _DOWNLOAD_HEADERS:
        made.headers.pop(name, None)
    return made
