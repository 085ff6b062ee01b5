"""Resume states: forward only, whatever is fetched twice, and there for the next crawl."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from redis import Redis
from scrapy.settings import Settings

from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import EmbeddedRedis
from crawler.commands.resume_state import Command
from crawler.errors import FrontierDownError, FrontierError
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.resume import Progress, ResumeState
from tests.crawlers import MakeCrawler, make_crawler
from tests.integration.cases.pages import Pages

__all__ = ["make_crawler"]

Start = Callable[..., WorkerProcess]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.every_redis
async def test_it_goes_forward_only(make_crawler: MakeCrawler) -> None:
    state, other = (ResumeState.of(make_crawler(), "shop.example") for _ in range(2))
    assert await state.load() == Progress()
    assert await state.save(page=1, timestamp=NOON, status="paging", add={"items": 20, "errors": 1})
    assert await other.save(page=12, timestamp=NOON - timedelta(hours=1), add={"items": 5})
    for page in (12, 9, 1):
        assert not await state.save(page=page, timestamp=NOON + timedelta(1), status="begun", add={"items": 100})
    known = await state.load()
    assert (known.page, known.timestamp, known.status) == (12, NOON, "paging")
    assert known.totals == {"items": 25, "errors": 1}
    assert known.saved_at is not None


async def test_a_step_is_noted_wholly_or_not_at_all(make_crawler: MakeCrawler, client: Redis) -> None:
    state = ResumeState.of(make_crawler(), "shop.example")
    with pytest.raises(FrontierError, match="total:price"):
        await state.save(page=5, add={"items": 3, "price": 1.5})  # type: ignore[dict-item]
    assert await state.load() == Progress()
    assert client.keys() == []


async def test_without_a_page_the_timestamp_counts_and_without_both_all_does(make_crawler: MakeCrawler) -> None:
    state = ResumeState.of(make_crawler(), "news.example")
    in_india = (NOON + timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=5.5)))
    assert await state.save(timestamp=NOON.replace(tzinfo=None), add={"items": 1})
    assert await state.save(timestamp=in_india, add={"items": 1})
    assert not await state.save(timestamp=NOON, add={"items": 1})
    assert await state.save(add={"items": 1, "skipped": 2}, status="waiting")
    known = await state.load()
    assert (known.timestamp, known.page, known.status) == (in_india, 0, "waiting")
    assert known.totals == {"items": 3, "skipped": 2}


async def test_sites_and_spiders_have_their_own_for_their_lifetime(make_crawler: MakeCrawler, client: Redis) -> None:
    crawler = make_crawler(RESUME_LIFETIME_S=1000)
    state, other = (ResumeState.of(crawler, site) for site in ("a.example", "b.example"))
    elsewhere = ResumeState.of(make_crawler(FRONTIER_NAMESPACE="ns"), "a.example")
    await state.save(page=1)
    await other.save(page=2)
    assert [(await one.load()).page for one in (state, other, elsewhere)] == [1, 2, 0]
    keys = Keys.of("plain")
    assert all(999_000 < client.pttl(key) <= 1_000_000 for key in (keys.resume("a.example"), keys.resumes))
    # The list of sites does not keep those whose time is over.
    client.zadd(keys.resumes, {"old.example": 1})
    await state.save(page=2)
    assert client.zrange(keys.resumes, 0, -1) == [b"b.example", b"a.example"]
    await state.forget()
    assert (await state.load()).page == 0
    assert client.zrange(keys.resumes, 0, -1) == [b"b.example"]


async def test_it_waits_for_redis_unless_the_worker_is_to_stop(make_crawler: MakeCrawler) -> None:
    with EmbeddedRedis() as server:
        crawler = make_crawler(REDIS_URL=server.url)
        state = ResumeState.of(crawler, "shop.example")
        await state.save(page=1)
        server.kill()
        saving = asyncio.create_task(state.save(page=2))
        await asyncio.wait([saving], timeout=0.2)
        assert not saving.done()
        server.restart()
        assert await saving
        assert (await state.load()).page == 2
        server.kill()
        crawler.crawling = False
        with pytest.raises(FrontierDownError):
            await state.save(page=3)


def test_a_killed_worker_and_the_next_crawl_go_on_where_it_was(
    pages: Pages, worker: Start, ended: Callable[..., None], eventually: Callable[..., None], client: Redis
) -> None:
    keys = Keys.of("paging")
    pages.hold = pages.wait_for_budget

    def start(upto: int) -> WorkerProcess:
        return worker("paging", "-a", f"url={pages.origin}", "-a", f"pages={upto}", FRONTIER_LEASE_S="1")

    def page_saved() -> int:
        return int(client.hget(keys.resume(pages.origin), "page") or 0)

    victim = start(20)
    pages.allow(7)
    eventually(lambda: page_saved() == 7 and "/list/8" in pages.paths, 60)
    victim.kill()
    pages.release("worker-2")
    ended(start(20))
    assert set(pages.paths) == {f"/list/{number}" for number in range(1, 21)}
    known = Progress.of(client.hgetall(keys.resume(pages.origin)))
    assert (known.page, known.status, known.totals) == (20, "done", {"items": 40})

    # What was seen and what was queued is forgotten; the resume state is not.
    Controls(client, keys, "the tests' Redis").clear(forget=True)
    pages.arrivals.clear()
    pages.release("worker-3")
    ended(start(25))
    assert pages.paths == [f"/list/{number}" for number in range(21, 26)]
    assert Progress.of(client.hgetall(keys.resume(pages.origin))).totals == {"items": 50}


# -- the command


async def test_the_command_lists_and_forgets(
    make_crawler: MakeCrawler, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawler = make_crawler()
    await ResumeState.of(crawler, "a.example").save(page=3, timestamp=NOON, status="paging", add={"items": 1200})
    await ResumeState.of(crawler, "b.example").save(page=1)

    def resume_state(*args: str, url: str = redis_url, **options: bool) -> tuple[int, str]:
        command = Command()
        command.settings = Settings({"REDIS_URL": url, "SPIDER_MODULES": ["tests.crawlers"]})
        command.run([*args], argparse.Namespace(**{"json": False, "forget": False, **options}))
        shown = capsys.readouterr()
        return command.exitcode, shown.out + shown.err

    code, shown = resume_state("plain")
    assert code == 0
    row = ["a.example", "3", "2026-11-30", "12:00:00Z", "paging", "items", "1,200"]
    assert shown.splitlines()[1].split()[: len(row)] == row
    code, shown = resume_state("plain", "b.example", json=True)
    assert (code, json.loads(shown)["b.example"]["page"]) == (0, 1)
    assert resume_state("plain", "a.example", forget=True) == (0, "Forgotten: a.example.\n")
    assert (await ResumeState.of(crawler, "a.example").load()).page == 0
    assert (await ResumeState.of(crawler, "b.example").load()).page == 1
    assert resume_state("plain", "a.example") == (1, "plain keeps no resume state of these sites.\n")
    code, shown = resume_state("plain", url="redis://127.0.0.1:1")
    assert (code, "can't be reached" in shown) == (2, True)


def test_the_command_is_one_of_the_projects(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "scrapy", "resume_state", "site"]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "site keeps no resume state.\n")
