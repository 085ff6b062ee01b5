"""The buffer: when batches go, that order does not matter, what counts as durable, and its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple

import pytest

from crawler.storage.buffer import IN_FLIGHT, Buffer

SIZE_BYTES = 1000


class Entry(NamedTuple):
    text: bytes
    size_bytes: int = SIZE_BYTES


class Writer:
    """Keeps every batch until a test lets it go."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.is_called = asyncio.Event()
        self._gates: list[asyncio.Future[None]] = []

    async def __call__(self, entries: Sequence[Entry]) -> None:
        self.batches.append([entry.text for entry in entries])
        self.is_called.set()
        gate = asyncio.get_running_loop().create_future()
        self._gates.append(gate)
        await gate

    async def let_go(self, number: int) -> None:
        self._gates[number].set_result(None)
        await turns()

    async def fail(self, number: int, error: Exception) -> None:
        self._gates[number].set_exception(error)
        await turns()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def document(number: int) -> Entry:
    return Entry(b"%d" % number)


def buffer_for(
    writer: Writer,
    failures: list[BaseException] | None = None,
    *,
    batch_docs: int = 3,
    batch_bytes: int = 1 << 20,
    flush_s: float = 3600,
    limit_bytes: int = 1 << 20,
) -> Buffer[Entry]:
    on_failure = failures.append if failures is not None else _unexpected
    return Buffer(
        writer, on_failure, batch_docs=batch_docs, batch_bytes=batch_bytes, flush_s=flush_s, limit_bytes=limit_bytes
    )


def _unexpected(error: BaseException) -> None:
    pytest.fail(f"unexpected: {error!r}")


async def test_a_batch_goes_when_it_has_enough_documents() -> None:
    writer = Writer()
    buffer = buffer_for(writer)
    for number in range(7):
        buffer.put(document(number))
    await turns()
    assert writer.batches == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
    assert buffer.documents == 7


async def test_a_batch_goes_when_it_has_enough_bytes() -> None:
    writer = Writer()
    buffer = buffer_for(writer, batch_docs=1000, batch_bytes=3 * SIZE_BYTES)
    for number in range(3):
        buffer.put(document(number))
    await turns()
    assert writer.batches == [[b"0", b"1", b"2"]]


async def test_a_batch_goes_after_its_time() -> None:
    writer = Writer()
    buffer = buffer_for(writer, flush_s=0.01)
    buffer.put(document(0))
    await turns()
    assert writer.batches == []
    await asyncio.wait_for(writer.is_called.wait(), 20)
    assert writer.batches == [[b"0"]]


async def test_all_is_durable_only_when_what_came_before_is() -> None:
    writer = Writer()
    buffer = buffer_for(writer, batch_docs=1)
    assert buffer.durable is None
    futures: list[asyncio.Future[None] | None] = []
    for number in range(3):
        buffer.put(document(number))
        futures.append(buffer.durable)
    await turns()
    await writer.let_go(1)
    await writer.let_go(2)
    assert not any(future and future.done() for future in futures)
    await writer.let_go(0)
    assert all(future and future.done() for future in futures)
    assert buffer.durable is None
    assert (buffer.documents, buffer.size_bytes) == (0, 0)


async def test_what_waits_for_company_counts_as_not_durable() -> None:
    writer = Writer()
    buffer = buffer_for(writer)
    buffer.put(document(0))
    waiting = buffer.durable
    assert waiting is not None
    assert not waiting.done()
    buffer.hurry()
    await turns()
    await writer.let_go(0)
    assert waiting.done()


async def test_only_so_many_batches_are_written_at_once() -> None:
    writer = Writer()
    buffer = buffer_for(writer, batch_docs=1)
    for number in range(IN_FLIGHT + 2):
        buffer.put(document(number))
    await turns()
    assert len(writer.batches) == IN_FLIGHT
    await writer.let_go(2)
    assert len(writer.batches) == IN_FLIGHT + 1


async def test_hurry_waits_for_the_batch_under_way_and_then_takes_all() -> None:
    writer = Writer()
    buffer = buffer_for(writer, batch_docs=100)
    buffer.put(document(0))
    buffer.hurry()
    await turns()
    for number in (1, 2):
        buffer.put(document(number))
        buffer.hurry()
    await turns()
    assert writer.batches == [[b"0"]]
    await writer.let_go(0)
    assert writer.batches == [[b"0"], [b"1", b"2"]]


async def test_a_full_buffer_says_so_and_takes_more_nevertheless() -> None:
    writer = Writer()
    buffer = buffer_for(writer, batch_docs=1, limit_bytes=2 * SIZE_BYTES)
    buffer.put(document(0))
    assert not buffer.is_full
    buffer.put(document(1))
    assert buffer.is_full
    buffer.put(document(2))
    waiter = asyncio.ensure_future(buffer.wait_for_room())
    await turns()
    await writer.let_go(0)
    assert not waiter.done()
    await writer.let_go(1)
    assert waiter.done()
    assert not buffer.is_full


async def test_drain_writes_what_is_left() -> None:
    writer = Writer()
    buffer = buffer_for(writer)
    buffer.put(document(0))
    draining = asyncio.ensure_future(buffer.drain(20))
    await turns()
    await writer.let_go(0)
    assert await draining == 0


async def test_drain_gives_up_in_time_and_leaves_no_task() -> None:
    writer = Writer()
    buffer = buffer_for(writer, batch_docs=1)
    for number in range(2):
        buffer.put(document(number))
    durable = buffer.durable
    assert await buffer.drain(0.01) == 2
    assert durable is not None
    assert not durable.done()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_drain_ends_what_loses_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the client of Redis does in Python 3.11: the worker could not be stopped while a list was full."""
    monkeypatch.setattr("crawler.tasks.AGAIN_S", 0.01)
    lost: list[str] = []

    async def write(_: Sequence[Entry]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.append("once")
        await asyncio.Event().wait()

    buffer = Buffer[Entry](
        write, _unexpected, batch_docs=1, batch_bytes=1 << 20, flush_s=3600, limit_bytes=1 << 20, in_flight=1
    )
    buffer.put(document(0))
    assert await buffer.drain(0.01) == 1
    assert lost == ["once"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_failure_is_told_and_never_counts_as_durable() -> None:
    writer = Writer()
    failures: list[BaseException] = []
    buffer = buffer_for(writer, failures, batch_docs=1)
    for number in range(2):
        buffer.put(document(number))
    await turns()
    error = ZeroDivisionError()
    await writer.fail(0, error)
    await writer.let_go(1)
    assert failures == [error]
    assert buffer.durable is not None
    assert not buffer.durable.done()


async def test_what_is_written_is_not_logged_as_the_page_that_filled_the_batch() -> None:
    page = ContextVar("page", default="")
    seen: list[str] = []

    async def write(_: Sequence[Entry]) -> None:
        seen.append(page.get())
        if len(seen) == 3:
            raise OSError

    buffer = Buffer[Entry](
        write,
        lambda _: seen.append(page.get()),
        batch_docs=1,
        batch_bytes=1 << 20,
        flush_s=3600,
        limit_bytes=1 << 20,
        in_flight=1,
    )
    page.set("a page")
    for number in range(3):
        buffer.put(document(number))
    await turns()
    assert seen == [""] * 4
