"""All links of a page in one object: what they share is said once, and none of them becomes a Request on its way."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler

from crawler import seeds
from crawler.fingerprints import RequestFingerprinter, fingerprint_canonical, is_canonical

#: Stands for a link where what all links share is encoded.
_PATTERN = "http://pattern/"


class Links(Request):
    """Ask for many pages at once: `yield Links(urls, callback=self.parse)` in the place of a Request for each.

    urls: absolute addresses. callback, errback, meta, cb_kwargs, headers, cookies, priority and the rest are those of a
    Request, and every link gets them. On its way to the frontier it passes each spider middleware once, as one request:
    so depth, priority by depth and Referer are right; allowed_domains and URLLENGTH_LIMIT are applied to each link.
    Every link meets the dedup filter. Only this project's scheduler understands it.
    """

    attributes: tuple[str, ...] = (*Request.attributes, "urls")

    def __init__(self, urls: Iterable[str], callback: Callable[..., Any] | None = None, **kwargs: Any) -> None:
        self.urls = list(urls)
        # Middlewares see the shortest link, and dont_filter tells them to leave the choice of hosts to whoever expands.
        url = kwargs.pop("url", None) or next(filter(is_canonical, sorted(self.urls, key=len)), "about:blank")
        kwargs["dont_filter"] = True
        super().__init__(url, callback, **kwargs)

    def __repr__(self) -> str:
        return f"<{len(self.urls)} links, {self.url} among them>"


def _like(links: Links, url: str) -> Request:
    """Return the request that one of the links stands for."""
    shared = {name: getattr(links, name) for name in Request.attributes}
    return Request(**shared | {"url": url, "dont_filter": False})


class Expander:
    """Turn Links into seeds, for one spider."""

    def __init__(self, crawler: Crawler, spider: Spider) -> None:
        self._spider = spider
        self._length_limit = crawler.settings.getint("URLLENGTH_LIMIT") or None
        self._fingerprint = crawler.request_fingerprinter.fingerprint
        self._fast = type(crawler.request_fingerprinter) is RequestFingerprinter
        self._is_within = lru_cache(maxsize=10_000)(self._is_allowed)

    def expand(self, links: Links) -> Iterator[tuple[bytes, bytes]]:
        """Give (fingerprint, seed) of each link that is within allowed_domains and not too long; some 2 µs a link.

        A link that is no address is left out. Raises NotDataError when what the links share can't be stored.
        """
        head, tail = seeds.around(links, self._spider) or self._around(links)
        fast = self._fast and links.method == "GET" and not links.body and not links.meta.get("verbatim_url")
        for url in links.urls:
            if self._length_limit and len(url) > self._length_limit:
                continue
            if fast and is_canonical(url):
                if self._is_within(url.split("/", 3)[2]):
                    yield fingerprint_canonical(url), head + url.encode() + tail
                continue
            try:
                request = _like(links, url)
            except (ValueError, TypeError):
                continue
            if self._is_within(urlsplit(request.url).netloc):
                yield self._fingerprint(request), seeds.encode(request, self._spider, priority=False)

    def _around(self, links: Links) -> tuple[bytes, bytes]:
        head, tail = seeds.encode(_like(links, _PATTERN), self._spider, priority=False).split(_PATTERN.encode())
        return head, tail

    def _is_allowed(self, authority: str) -> bool:
        allowed = getattr(self._spider, "allowed_domains", None)
        if not allowed:
            return True
        host = re.sub(r":\d*$", "", authority.rpartition("@")[2]).strip("[]").lower()
        return any(host == domain or host.endswith(f".{domain}") for domain in map(str.lower, allowed))
