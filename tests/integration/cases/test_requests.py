"""What users put into requests, seeds and settings: it comes through, or is refused alone and in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from bench.demo.worker import WorkerProcess
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from tests.integration.cases.pages import Pages

Start = Callable[..., WorkerProcess]
Ended = Callable[..., None]
Eventually = Callable[..., None]


def test_what_cant_be_queued_is_refused_alone(pages: Pages, worker: Start, ended: Ended, client: Redis) -> None:
    """Cases S1, S2, S3, S17, S22: the callback goes on, the other requests arrive with all that they carry."""
    client.rpush("mixed:start_urls", f"{pages.origin}/", f"no_such_callback--{pages.origin}/bad")
    process = worker("mixed")
    ended(process)
    assert sorted(pages.paths) == ["/", *(f"/good/{n}" for n in range(5))]
    log = process.log.read_text()
    for number in range(5):
        assert f"parsed ('{number}', {number}, ('a', b'b'))" in log
    refused = [line for line in log.splitlines() if "Dropped a request that can't be stored" in line]
    assert len(refused) == 5
    assert all(f"{pages.origin}/bad" in line for line in refused)
    for culprit in ("<lambda>", "nested", "meta", "cb_kwargs", "FollowSpider"):
        assert any(culprit in line for line in refused), refused
    [dead] = Controls(client, Keys.of("mixed"), "the tests' Redis").dead()
    assert "no_such_callback" in dead.reason


def test_a_hook_of_the_spiders_own_makes_requests_of_what_producers_write(
    pages: Pages, worker: Start, ended: Ended, client: Redis
) -> None:
    """Case S21: it is called for every entry of every batch; None is no request; an error costs its entry alone."""
    entries = [f"one {n}" for n in range(20)]
    entries[3:3] = ["none", "many x", "one not-a-number"]
    client.rpush("from_data:start_urls", *entries)
    ended(worker("from_data", "-a", f"url={pages.origin}", FRONTIER_BATCH="4"))
    assert sorted(pages.paths) == sorted(["/start", "/xa", "/xb", *(f"/{n}" for n in range(20))])
    [dead] = Controls(client, Keys.of("from_data"), "the tests' Redis").dead()
    assert "make_request_from_data(b'one not-a-number') raised ValueError" in dead.reason


def test_a_fingerprinter_of_the_users_decides(pages: Pages, worker: Start, ended: Ended, client: Redis) -> None:
    """Cases D11, D12: requests that differ in their meta alone are several pages, if it says so."""
    client.rpush("render:start_urls", f"{pages.origin}/")
    ended(worker("render"))
    assert sorted(pages.paths) == ["/", "/page", "/page", "/page", "/page?html", "/page?pdf", "/page?png"]


@pytest.mark.parametrize(
    ("settings", "times"),
    [
        (("DUPEFILTER_CLASS=scrapy.dupefilters.RFPDupeFilter",), 1),
        (("DUPEFILTER_CLASS=scrapy.dupefilters.BaseDupeFilter",), 1),
        (("DUPEFILTER_CLASS=no.such.Filter",), 1),
        (("DEDUP=off", "DEPTH_LIMIT=2"), 4),
    ],
)
def test_the_frontier_filters_whatever_scrapys_filter_is(
    pages: Pages, worker: Start, ended: Ended, client: Redis, settings: tuple[str, ...], times: int
) -> None:
    """Cases D13, V3: DUPEFILTER_CLASS is Scrapy's own scheduler's, and DEDUP=off switches the filter off."""
    pages.links = {"/": ["/a", "/b"], "/a": ["/c", "/b"], "/b": ["/c", "/b"]}
    client.rpush("follow:start_urls", f"{pages.origin}/")
    ended(worker("follow", *(word for setting in settings for word in ("-s", setting))))
    assert pages.paths.count("/c") == (1 if times == 1 else 2)
    assert pages.paths.count("/b") == (1 if times == 1 else 3)


def test_a_crawl_by_rules_without_arguments(pages: Pages, worker: Start, ended: Ended, client: Redis) -> None:
    """Cases M12, O6: Scrapy's CrawlSpider runs on the frontier, and the spiders that ship need no argument either.

    A seed outside of allowed_domains is not fetched.
    """
    pages.links = {"/": ["/list/1", "/other"], "/list/1": ["/list/2", "/item/1"], "/list/2": ["/item/1", "/item/2"]}
    client.rpush("rules:start_urls", "http://outside.example/", f"{pages.origin}/")
    client.rpush("site:start_urls", f"{pages.origin}/item/3")
    rules, site = worker("rules", http_proxy=pages.origin), worker("site")
    ended(rules, site)
    assert sorted(pages.paths) == ["/", "/item/1", "/item/2", "/item/3", "/list/1", "/list/2"]
    log = rules.log.read_text()
    assert [log.count(f"item {pages.origin}/item/{n}") for n in (1, 2)] == [1, 1]
    assert not [page for page in pages.arrivals if page.host == "outside.example"]


def test_an_item_that_failed_is_made_again_by_the_next_crawl(
    pages: Pages, worker: Start, ended: Ended, client: Redis
) -> None:
    """Case D14: a page is done though a pipeline failed; what was seen is forgotten when the crawl is complete."""
    pages.links = {"/": ["/a"]}
    failing = ("-s", 'ITEM_PIPELINES={"tests.integration.cases.spiders.FailingPipeline": 1}')
    for crawl, arguments in enumerate((failing, ())):
        client.rpush("site:start_urls", f"{pages.origin}/")
        process = worker("site", *arguments)
        ended(process)
        assert pages.answered == {"/": crawl + 1, "/a": crawl + 1}
        assert process.stat("item_scraped_count") == 2 * crawl


def test_a_page_that_was_seen_is_crawled_again_for_the_asking(
    pages: Pages, worker: Start, ended: Ended, eventually: Eventually, client: Redis
) -> None:
    """Cases O4, K2: by dont_filter, by an entry of a start key, and by forgetting what was seen, which has its keys."""
    pages.links = {"/": ["/a", "/a", "/b?again", "/b?again"]}
    client.rpush("follow:start_urls", f"{pages.origin}/")
    worker("follow", CLOSE_WHEN_COMPLETE="false")
    eventually(lambda: pages.answered == {"/": 1, "/a": 1, "/b?again": 2}, 60)
    client.rpush("follow:start_urls", f"{pages.origin}/a")
    eventually(lambda: pages.answered["/a"] == 2, 60)

    keys = Keys.of("follow")
    controls = Controls(client, keys, "the tests' Redis")
    client.rpush("follow:start_urls", f"{pages.origin}/")
    eventually(lambda: pages.answered["/b?again"] == 4 and controls.status().is_complete, 60)
    assert pages.answered["/a"] == 2
    assert client.hmget(keys.meta, "dedup", "seen") == [b"bloom capacity=10000000 error_rate=0.001", b"1"]
    assert {client.type(key) for key in client.scan_iter(f"{keys.seen}*")} in ({b"MBbloom--"}, {b"string"})
    controls.clear(forget=True)
    assert client.keys(f"{keys.seen}*") == []
    client.rpush("follow:start_urls", f"{pages.origin}/")
    eventually(lambda: pages.answered["/a"] == 3, 60)
