"""Documents on their way out: gathered into batches, several of which may be written at once, bounded in bytes.

Nothing here waits for a server but who asks to. A document is durable when its batch is, and a batch counts as such
only when all batches before it are: so one future answers for everything that was put in until now.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, Protocol, TypeVar

from crawler.tasks import end


class Sized(Protocol):
    """Some document."""

    @property
    def size_bytes(self) -> int:
        """Return what it takes in memory, about."""


Entry = TypeVar("Entry", bound=Sized)

#: Batches that are written at once: they hide MongoDB's answering time, and order does not matter (merge.py).
IN_FLIGHT = 4


class _Batch(Generic[Entry]):
    __slots__ = ("drafts", "durable", "is_written", "size_bytes")

    def __init__(self) -> None:
        self.drafts: list[Entry] = []
        self.size_bytes = 0
        self.is_written = False
        self.durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Buffer(Generic[Entry]):
    """Gather documents and have them written by *write*, which returns when a batch is durable.

    A batch is closed at *batch_docs* documents, at *batch_bytes*, or *flush_s* seconds after its first document. At
    *limit_bytes* the buffer is full; it takes more nevertheless, since what was fetched must go somewhere, and whoever
    gives should stop. Up to *in_flight* batches are written at once; with 1, in order. Sizes are those of uncompressed
    pages. Should *write* raise, on_failure is told: that batch and all after it will never count as durable.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Entry]], Awaitable[None]],
        on_failure: Callable[[BaseException], None],
        *,
        batch_docs: int,
        batch_bytes: int,
        flush_s: float,
        limit_bytes: int,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self._write = write
        self._on_failure = on_failure
        self._batch_docs = batch_docs
        self._batch_bytes = batch_bytes
        self._flush_s = flush_s
        self._limit_bytes = limit_bytes
        self._in_flight = in_flight
        #: All batches that are not durable yet, oldest first; the last one may still be open.
        self._batches: deque[_Batch[Entry]] = deque()
        self._open: _Batch[Entry] | None = None
        self._closed: deque[_Batch[Entry]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_hurried = False
        self._room = asyncio.Event()
        self._room.set()
        #: What is in it, being written or not.
        self.documents = 0
        self.size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Tell whether no more should be put in for now."""
        return self.size_bytes >= self._limit_bytes

    async def wait_for_room(self) -> None:
        """Return when it is not full."""
        await self._room.wait()

    @property
    def durable(self) -> asyncio.Future[None] | None:
        """Return what resolves once all that was put in until now is durable; None if it is.

        The future is shared: use `add_done_callback` or `asyncio.shield`, and never cancel it.
        """
        return self._batches[-1].durable if self._batches else None

    def put(self, draft: Entry) -> None:
        """Take a document in. Never refuses, never waits."""
        if self._open is None:
            self._open = _Batch()
            self._batches.append(self._open)
            self._timer = asyncio.get_running_loop().call_later(self._flush_s, self._close_batch)
        size_bytes = draft.size_bytes
        self._open.drafts.append(draft)
        self._open.size_bytes += size_bytes
        self.documents += 1
        self.size_bytes += size_bytes
        if self.is_full:
            self._room.clear()
        if len(self._open.drafts) >= self._batch_docs or self._open.size_bytes >= self._batch_bytes:
            self._close_batch()

    def hurry(self) -> None:
        """Have everything written as soon as no other batch is under way, however few the documents."""
        self._is_hurried = self._open is not None
        self._start()

    async def drain(self, timeout_s: float) -> int:
        """Write everything; return how many documents could not be written in time. They are given up."""
        if self._open is not None:
            self._close_batch()
        if durable := self.durable:
            await asyncio.wait([durable], timeout=timeout_s)
        await end(self._tasks)
        return self.documents

    def _close_batch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open is not None:
            self._closed.append(self._open)
            self._open = None
        self._start()

    def _start(self) -> None:
        """Begin to write what is closed, as far as there is a free place."""
        if self._is_hurried and not self._closed and not self._tasks:
            self._is_hurried = False
            self._close_batch()
        while self._closed and len(self._tasks) < self._in_flight:
            batch = self._closed.popleft()
            context = Context()  # not that of the page whose document happened to fill it (logs.py)
            task = asyncio.create_task(self._write_batch(batch), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._on_written, context=context)

    async def _write_batch(self, batch: _Batch[Entry]) -> None:
        await self._write(batch.drafts)
        batch.is_written = True
        self.documents -= len(batch.drafts)
        self.size_bytes -= batch.size_bytes
        batch.drafts.clear()
        while self._batches and self._batches[0].is_written:
            self._batches.popleft().durable.set_result(None)
        if not self.is_full:
            self._room.set()

    def _on_written(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if error := task.exception():
            self._on_failure(error)
        else:
            self._start()
