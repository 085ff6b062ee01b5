"""Spiders that do what users' spiders do, for the field cases."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, ClassVar

from scrapy import Request, Spider
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from crawler.cache import Cache
from crawler.resume import ResumeState

#: Makes any of Scrapy's commands know these spiders, too.
PROJECT = ("-s", f"SPIDER_MODULES=crawler.spiders,{__name__}")


class FollowSpider(Spider):
    """Follow every link of a page; those with `again` in their address without a filter."""

    name = "follow"

    def parse(self, response: Any) -> Iterator[Request]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, dont_filter="again" in href)


class AgainSpider(Spider):
    """Ask for one page 1000 times."""

    name = "again"

    def parse(self, response: Any) -> Iterator[Request]:
        for _ in range(1000):
            yield response.follow("/same", self.parse_same, dont_filter=True)

    def parse_same(self, response: Any) -> None: ...


class MixedSpider(Spider):
    """Yield requests that can't be queued, and between and behind them good ones."""

    name = "mixed"

    def parse(self, response: Any) -> Iterator[Request]:
        def nested(response: Any) -> None: ...

        yield response.follow("/good/0", self.parse_good, cb_kwargs={"number": 0, "tags": ("a", b"b")})
        yield response.follow("/bad", callback=lambda _: None)
        yield response.follow("/bad", callback=nested)
        yield response.follow("/bad", meta={"selector": response.selector})
        yield response.follow("/bad", cb_kwargs={"lock": threading.Lock()})
        yield response.follow("/bad", callback=FollowSpider().parse)
        for number in range(1, 5):
            yield response.follow(f"/good/{number}", self.parse_good, cb_kwargs={"number": number, "tags": ("a", b"b")})

    def parse_good(self, response: Any, number: int, tags: tuple[str, bytes]) -> None:
        self.logger.info("parsed %r", (response.url[-1], number, tags))


class FromDataSpider(Spider):
    """Make requests of what producers write, with a hook of its own; and start by itself as well."""

    name = "from_data"

    def __init__(self, url: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.start_urls = [f"{url}/start"]

    def make_request_from_data(self, data: bytes) -> Request | Iterable[Request] | None:
        what, _, number = data.decode().partition(" ")
        if what == "none":
            return None
        if what == "many":
            return [Request(f"{self.url}/{number}{part}") for part in "ab"]
        return Request(f"{self.url}/{int(number)}")

    def parse(self, response: Any) -> None: ...


class RulesSpider(CrawlSpider):
    """Crawl by rules, and need no arguments."""

    name = "rules"
    allowed_domains: ClassVar[list[str]] = ["127.0.0.1"]
    rules = (Rule(LinkExtractor(allow="/list"), follow=True), Rule(LinkExtractor(allow="/item"), callback="parse_item"))

    def parse_item(self, response: Any) -> None:
        self.logger.info("item %s", response.url)


class Rendered:
    """Tell requests apart by what is to be done with the page, too."""

    def fingerprint(self, request: Request) -> bytes:
        return hashlib.sha1(f"{request.url} {request.meta.get('render')}".encode(), usedforsecurity=False).digest()


class RenderSpider(Spider):
    """Ask for one page in several ways, which only its own fingerprinter tells apart."""

    name = "render"
    custom_settings: ClassVar[dict[str, Any]] = {"REQUEST_FINGERPRINTER_CLASS": Rendered}  # type: ignore[misc]

    def parse(self, response: Any) -> Iterator[Request]:
        for render in ("html", "png", "html", "pdf", "png"):
            yield response.follow(f"/page?{render}", self.parse_page, meta={"render": render})
            yield response.follow("/page", self.parse_page, meta={"render": render})

    def parse_page(self, response: Any) -> None: ...


class FailingPipeline:
    """Fail on every item."""

    def process_item(self, item: Any) -> Any:
        raise ZeroDivisionError


class OldSpider(Spider):
    """Begin as spiders did before Scrapy 2.13."""

    name = "old"

    def start_requests(self) -> Iterator[Request]:
        yield Request("http://127.0.0.1:1/")

    def parse(self, response: Any) -> None: ...


class PagingSpider(Spider):
    """Page through a list, and go on where the last crawl was; a page has two items."""

    name = "paging"

    def __init__(self, url: str, pages: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.pages = int(pages)

    async def start(self) -> AsyncIterator[Request]:
        known = await ResumeState.of(self.crawler, self.url).load()
        yield Request(f"{self.url}/list/{known.page + 1}")

    async def parse(self, response: Any) -> AsyncIterator[Any]:
        page = int(response.url.rpartition("/")[2])
        for number in range(2):
            yield {"page": page, "number": number}
        if page < self.pages:
            yield response.follow(f"/list/{page + 1}")
        status = "paging" if page < self.pages else "done"
        await ResumeState.of(self.crawler, self.url).save(page=page, status=status, add={"items": 2})


class TitlesSpider(Spider):
    """Follow every link, and give an item a page."""

    name = "titles"

    def parse(self, response: Any) -> Iterator[Any]:
        yield {"path": response.css("title::text").get()}
        yield from response.follow_all(css="a")


class TokenSpider(Spider):
    """Sign in once for all workers; a token that is refused is replaced."""

    name = "token"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> TokenSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.tokens = Cache.of(crawler, "token", lifetime_s=lambda token: token["expires_in"] - 60)
        return spider

    async def parse(self, response: Any) -> AsyncIterator[Request]:
        async def sign_in() -> Any:
            request = Request(response.urljoin("/token"), callback=NO_CALLBACK)
            return (await self.crawler.engine.download_async(request)).json()

        token = await self.tokens.get_or_make("127.0.0.1", sign_in)
        item = response.url.rpartition("/")[2]
        yield response.follow(f"/{token['access_token']}/{item}", self.parse_item, cb_kwargs={"token": token})

    async def parse_item(self, response: Any, token: dict[str, Any]) -> AsyncIterator[Request]:
        if "/old/" in response.url:  # as if it were refused
            await self.tokens.forget("127.0.0.1", token)
            yield response.follow(f"/{response.url.rpartition('/')[2]}", dont_filter=True)
