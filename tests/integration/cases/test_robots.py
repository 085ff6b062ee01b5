"""robots.txt: fetched once for all workers, and anew when its time is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import TextResponse

from bench.demo.worker import WorkerProcess
from crawler.frontier.keys import shared_value
from crawler.robots import MAX_BYTES, SharedRobotsTxtMiddleware
from tests.crawlers import MakeCrawler, make_crawler
from tests.integration.cases.pages import PATIENCE_S, Arrival, Pages

__all__ = ["make_crawler"]

Start = Callable[..., WorkerProcess]
RULES = "User-agent: *\nDisallow: /private\n"


def test_three_workers_fetch_it_once_and_all_obey(
    pages: Pages, worker: Start, ended: Callable[..., None], client: Redis
) -> None:
    pages.texts["/robots.txt"] = RULES
    all_are_here = threading.Event()

    def hold(page: Arrival) -> None:
        if page.path != "/robots.txt":
            if len({other.worker for other in list(pages.arrivals) if other.path != "/robots.txt"}) == 3:
                all_are_here.set()
            all_are_here.wait(PATIENCE_S)

    pages.hold = hold
    paths = [f"/{kind}{number}" for number in range(150) for kind in ("page", "private")]
    client.rpush("follow:start_urls", *pages.urls(paths))
    workers = [worker("follow", ROBOTSTXT_OBEY="true") for _ in range(3)]
    ended(*workers)
    assert pages.paths.count("/robots.txt") == 1
    assert sorted(set(pages.paths)) == sorted(["/robots.txt", *(f"/page{number}" for number in range(150))])
    assert sum(process.stat("robotstxt/forbidden") for process in workers) == 150
    assert all(process.stat("robotstxt/forbidden") for process in workers)
    assert sum(process.stat("robotstxt/request_count") for process in workers) == 1


def test_a_worker_that_goes_on_fetches_it_anew_when_its_time_is_over(
    pages: Pages, worker: Start, eventually: Callable[..., None], client: Redis
) -> None:
    pages.texts["/robots.txt"] = RULES

    def crawl(path: str) -> None:
        client.rpush("follow:start_urls", f"{pages.origin}{path}")
        eventually(lambda: path in pages.paths, 60)

    worker("follow", ROBOTSTXT_OBEY="true", ROBOTSTXT_LIFETIME_S="1", CLOSE_WHEN_COMPLETE="false")
    crawl("/page")
    pages.texts["/robots.txt"] = "User-agent: *\nDisallow: /page\n"
    rest = iter(range(10_000))

    def is_fetched_anew() -> bool:
        client.rpush("follow:start_urls", f"{pages.origin}/other{next(rest)}")
        return pages.paths.count("/robots.txt") > 1

    eventually(is_fetched_anew, 60)
    client.rpush("follow:start_urls", f"{pages.origin}/page/again")
    crawl("/private/now")
    assert "/page/again" not in pages.paths


# -- what each answer means


class Engine:
    """Answer for robots.txt as told; count how often."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.first: Callable[[Request], object] = lambda _: None

    async def download_async(self, request: Request) -> TextResponse:
        self.first(request)
        self.asked.append(request.url)
        if isinstance(self.answer, Exception):
            raise self.answer
        status, body = self.answer
        return TextResponse(request.url, status=status, body=body)


def middleware(make: MakeCrawler, answer: Any) -> tuple[SharedRobotsTxtMiddleware, Engine]:
    crawler = make(ROBOTSTXT_OBEY=True)
    crawler.engine = engine = Engine(answer)  # type: ignore[assignment]
    return SharedRobotsTxtMiddleware(crawler), engine


DAY_MS = 86_400_000
DISALLOW = RULES.encode()
#: Of its last line, no more than `Disallow: /` is within what counts.
CUT = b"User-agent: *\n".ljust(MAX_BYTES - len("\nDisallow: /"), b"#") + b"\nDisallow: /elsewhere\n"


@pytest.mark.parametrize(
    ("answer", "allowed", "lifetime_ms"),
    [
        ((200, DISALLOW), False, DAY_MS),
        ((200, b""), True, DAY_MS),
        ((200, b"#" * (600 << 10) + b"\n" + DISALLOW), True, DAY_MS),
        ((200, CUT), True, DAY_MS),
        ((200, DISALLOW + CUT), False, DAY_MS),
        ((404, DISALLOW), True, DAY_MS),
        ((403, b""), True, DAY_MS),
        ((429, DISALLOW), True, 60_000),
        ((503, DISALLOW), True, 60_000),
        (ConnectionRefusedError("nobody there"), True, 60_000),
    ],
)
async def test_what_an_answer_means_and_for_how_long(
    make_crawler: MakeCrawler, client: Redis, answer: Any, allowed: bool, lifetime_ms: int
) -> None:
    parsed: list[Any] = []

    def note(robotparser: Any, request: Request) -> None:
        parsed.append(request.url)

    first, engine = middleware(make_crawler, answer)
    other, other_engine = middleware(make_crawler, (200, b"User-agent: *\nDisallow: /\n"))
    first.crawler.signals.connect(note, signals.robots_parsed)
    for robots in (first, other):
        for _ in range(3):
            request = Request("http://me:secret@A.example:81/private")
            if allowed:
                await robots.process_request(request)
            else:
                with pytest.raises(IgnoreRequest, match="robots"):
                    await robots.process_request(request)
    assert engine.asked == ["http://a.example:81/robots.txt"]
    assert other_engine.asked == []
    assert len(parsed) == (not isinstance(answer, Exception))
    assert lifetime_ms - 20_000 < client.pttl(shared_value("", "robots.txt", "http://a.example:81")) <= lifetime_ms


async def test_a_host_that_one_spider_may_not_ask_is_asked_by_the_others(make_crawler: MakeCrawler) -> None:
    """What the middlewares of one spider refuse says nothing of the host."""
    first, _ = middleware(make_crawler, IgnoreRequest("not that host"))
    other, other_engine = middleware(make_crawler, (200, DISALLOW))
    request = Request("http://a.example/private")
    await first.process_request(request)
    with pytest.raises(IgnoreRequest, match="robots"):
        await other.process_request(request)
    assert other_engine.asked == ["http://a.example/robots.txt"]


async def test_the_rules_of_a_host_outside_of_allowed_domains_are_asked_for(make_crawler: MakeCrawler) -> None:
    """A request that is let through nevertheless, a start request say, obeys them, too."""
    robots, engine = middleware(make_crawler, (200, DISALLOW))
    offsite = OffsiteMiddleware.from_crawler(robots.crawler)
    spider: Any = robots.crawler.spider
    spider.allowed_domains = ["other.example"]
    offsite.spider_opened(spider)
    engine.first = offsite.process_request
    with pytest.raises(IgnoreRequest, match="robots"):
        await robots.process_request(Request("http://a.example/private", dont_filter=True))


async def test_what_does_not_ask_for_it_does_not_need_it(make_crawler: MakeCrawler, client: Redis) -> None:
    robots, engine = middleware(make_crawler, (200, b"User-agent: *\nDisallow: /\n"))
    await robots.process_request(Request("data:,hello"))
    await robots.process_request(Request("http://a.example/", meta={"dont_obey_robotstxt": True}))
    assert engine.asked == []
    assert client.keys() == []
