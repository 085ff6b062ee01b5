"""The outbox: what arose first goes out first, and what Redis may have lost is still there."""

from __future__ import annotations

import asyncio

import pytest

from crawler import outbox
from crawler.frontier.messages import Lease, Link
from crawler.hand import Page
from crawler.outbox import Outbox


def link(name: str) -> Link:
    return Link(0, b"", 0, name.encode())


def page(token: str) -> Page:
    return Page(Lease(token, 0, 0, b""))


def names(links: list[Link]) -> list[str]:
    return [one.seed.decode() for one in links]


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(outbox, "time", clock)
    return clock


def sent(box: Outbox, *entries: str, seq: int) -> None:
    """Let these links go out with the call numbered *seq*."""
    for entry in entries:
        box.put(link(entry))
    links, _ = box.take(100)
    box.note_sent(seq, links)


def test_entries_go_out_in_order_and_no_page_before_its_links() -> None:
    box = Outbox(10)
    done = page("1:1")
    for entry in (link("a"), link("b"), done, link("c")):
        box.put(entry)
    links, pages = box.take(2)
    assert (names(links), pages) == (["a", "b"], [])
    links, pages = box.take(2)
    assert (names(links), pages) == (["c"], [done])
    assert len(box) == 0


def test_a_full_outbox_has_room_again_when_half_of_it_is_gone() -> None:
    box = Outbox(4)
    for name in "abcd":
        assert box.has_room
        box.put(link(name))
    assert not box.has_room
    box.take(1)
    assert not box.has_room
    box.take(1)
    assert box.has_room


def test_what_redis_lost_goes_out_again_first_and_pages_do_not() -> None:
    box = Outbox(10)
    sent(box, "a", seq=1)
    sent(box, "b", seq=3)
    sent(box, "c", seq=4)
    waiting = page("2:1")
    for entry in (link("e"), waiting):
        box.put(entry)
    assert box.rewind(1, [link("d")]) == [waiting]
    assert names(box.take(100)[0]) == ["b", "c", "d", "e"]


def test_what_redis_still_had_it_may_lose_the_next_time() -> None:
    box = Outbox(10)
    sent(box, "a", seq=1)
    sent(box, "b", seq=3)
    box.rewind(1, [])
    links, _ = box.take(100)
    box.note_sent(5, links)
    assert box.rewind(0, []) == []
    assert names(box.take(100)[0]) == ["a", "b"]


def test_what_was_sent_long_ago_is_on_the_disk(clock: Clock) -> None:
    box = Outbox(10)
    sent(box, "a", seq=1)
    clock.now_s += outbox.DURABLE_S - 1
    sent(box, "b", seq=2)
    clock.now_s += 2
    sent(box, "c", seq=3)
    # However long Redis is away then: it is the time of its last answers that counts.
    clock.now_s += 3600
    box.rewind(0, [])
    assert names(box.take(100)[0]) == ["b", "c"]


async def test_whoever_waits_until_all_is_sent_waits_for_what_goes_out_again() -> None:
    box = Outbox(10)
    sent(box, "a", seq=1)
    box.put(link("b"))
    waits = asyncio.create_task(box.wait_sent())
    await asyncio.sleep(0)
    links, _ = box.take(100)
    box.rewind(0, links)
    for seq in (2, 3):
        assert not waits.done()
        box.note_sent(seq, box.take(1)[0])
        await asyncio.sleep(0)
    assert waits.done()
