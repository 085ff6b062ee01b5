"""A long way to a server: what is sent over it arrives late, and is counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Self


class SlowLine:
    """Forward connections to a port of this machine; each direction takes *delay_s*."""

    def __init__(self, port: int, delay_s: float) -> None:
        self._target, self._delay_s = port, delay_s
        #: What went to the server in one piece: as many round trips, at most.
        self.sent = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        self._over = asyncio.Event()
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connect(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far, far_out = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(self._forward(near, far_out, self._count), self._forward(far, near_out, lambda: None))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            for writer in (near_out, far_out):
                writer.transport.abort()

    def _count(self) -> None:
        self.sent += 1

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_data: Callable[[], None]
    ) -> None:
        while data := await reader.read(1 << 20):
            on_data()
            self._loop.call_later(self._delay_s, writer.write, data)
        self._loop.call_later(self._delay_s, writer.close)
