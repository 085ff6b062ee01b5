"""A run's own bookkeeping: what waits is bounded, and troubles are counted, the first ones named."""

from __future__ import annotations

import asyncio

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.commands import progress
from crawler.commands.reparse import as_data, as_table, tell
from crawler.reparse import Run
from crawler.storage.stored import Selection


async def test_no_more_pages_wait_than_may() -> None:
    run = Run(Selection("shop"))
    requests = [Request(f"http://shop.example/{number}") for number in range(3)]
    offered = 0

    async def offer_all() -> None:
        nonlocal offered
        for request in requests:
            run.offer(request, Response(request.url))
            offered += 1
            await run.wait_for_room(2)

    offering = asyncio.create_task(offer_all())
    await asyncio.sleep(0)
    assert offered == 2
    taken = run.take(requests[0])
    assert taken is not None
    assert taken.url == requests[0].url
    for _ in range(3):
        await asyncio.sleep(0)
    assert offered == 3
    assert run.take(requests[0]) is None
    run.take(requests[1])
    await offering


def test_how_far_a_run_is_shows_in_the_fingerprints() -> None:
    run = Run(Selection("shop"))
    run.note_read(b"\x40" + bytes(15))
    assert run.progress == 0.25
    by_address = Run(Selection("shop", url="x"))
    by_address.note_read(b"\x40" + bytes(15))
    assert by_address.progress is None


def test_how_far_it_is_stands_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """About how many pages there are follows from the fingerprints, too."""
    monkeypatch.setattr(progress, "LOGGED_S", 1e-9)
    run = Run(Selection("shop"))
    told = progress.Progress()
    tell(told, run)
    run.note_read(b"\x40" + bytes(15))
    run.counts["parsed"] = 300
    tell(told, run)
    assert capsys.readouterr().err.splitlines()[-1].startswith("300 of 1,200 pages parsed, ")


def test_troubles_are_counted_and_the_first_ones_named() -> None:
    run = Run(Selection("shop"))
    run.begin()
    assert not run.went_wrong
    assert "callbacks that raised" not in as_table(run)
    for number in range(1000):
        run.note_trouble("failed", f"http://shop.example/{number}", ValueError("no title"))
    assert run.went_wrong
    assert len(run.troubles) == 20
    assert run.troubles[0] == "http://shop.example/0: no title"
    assert as_data(run)["failed"] == 1000
    assert "1,000" in as_table(run)


def test_a_run_that_ended_early_went_wrong() -> None:
    run = Run(Selection("shop"), ended="shutdown")
    run.begin()
    assert run.went_wrong
    assert as_data(run)["ended"] == "shutdown"
