"""How a task is ended."""

import asyncio
from collections.abc import Iterable
from typing import Any

#: What a task has to end, before it is cancelled again, seconds.
AGAIN_S = 0.5


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, again until they have ended.

    Once is not enough: in Python 3.11 `asyncio.wait_for`, which the clients of Redis and MongoDB use, loses a
    cancellation that comes together with what it waits for.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
