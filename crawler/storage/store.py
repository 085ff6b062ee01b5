"""The whole way of a document, opened and closed as one: buffer, writer, MongoDB, and the spool beside it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Self

from pymongo.errors import ConnectionFailure, PyMongoError

from crawler.config import Config
from crawler.storage.buffer import Buffer
from crawler.storage.client import address, greet, unreachable
from crawler.storage.destination import Destination
from crawler.storage.replay import Replay
from crawler.storage.spool import Spool
from crawler.storage.writer import Writer
from crawler.tasks import end

logger = logging.getLogger(__name__)

#: What the last documents have to get into the spool, when MongoDB did not take them in time.
SPOOLING_S = 10.0


class Store:
    """Hold what documents go through; count(name, number) is told what was done.

    on_failure is told of an error that nobody expected: what was put in from then on does not become durable.
    """

    def __init__(
        self,
        config: Config,
        destination: Destination,
        spool: Spool | None,
        count: Callable[[str, float], Any],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._close_s = config.store_close_s
        self._destination = destination
        self._writer = Writer(destination, spool, count)
        self.spool = spool
        self.buffer = Buffer(
            self._writer.write,
            on_failure,
            batch_docs=config.store_batch_docs,
            batch_bytes=config.store_batch_bytes,
            flush_s=config.store_flush_s,
            limit_bytes=config.store_buffer_bytes,
        )
        self._on_failure = on_failure
        self._replay = Replay(spool, destination, count) if spool is not None else None
        self._replaying = asyncio.create_task(self._replay.run()) if self._replay is not None else None
        if self._replaying is not None:
            self._replaying.add_done_callback(self._on_replay_ended)

    @classmethod
    async def open(
        cls, config: Config, count: Callable[[str, float], Any], on_failure: Callable[[BaseException], None]
    ) -> Self:
        """Connect to MongoDB; where there is a spool, it may also be away for now.

        Raises ConfigError or StorageError, which say what to do.
        """
        spool = Spool.of(config, count)
        destination = Destination(config, count)
        try:
            await greet(destination.database)
        except PyMongoError as error:
            # An account that is refused does not mend itself; a server that does not answer may.
            if spool is None or not isinstance(error, ConnectionFailure):
                await destination.close()
                raise unreachable(config, error) from None
            destination.note_away(error)
        logger.info("Pages and items go to the database %s of MongoDB at %s", config.mongo_database, address(config))
        return cls(config, destination, spool, count, on_failure)

    @property
    def is_away(self) -> bool:
        """Tell whether MongoDB did not take what it was given last."""
        return self._destination.is_away

    async def close(self, *, wholly: bool) -> int:
        """Store what is left, for as long as STORE_CLOSE_S, and disconnect; what MongoDB does not take is spooled.

        Return how many documents are durable nowhere.
        With *wholly* the spool is emptied, too, however long that takes, as long as MongoDB takes it.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._close_s
        if self.spool is not None:
            loop.call_at(until_s, self._writer.leave)
        left = await self.buffer.drain(self._close_s + (SPOOLING_S if self.spool is not None else 0))
        if self._replay is not None and self._replaying is not None and self.spool is not None:
            left_s = until_s - loop.time() if wholly or not self.is_away else 0
            await self._replay.drain(left_s, wholly=wholly)
            await end([self._replaying])
            await self.spool.close()
            if self.spool.documents:
                logger.warning(
                    "%d documents wait in %s for MongoDB: the next worker that runs there brings them to it",
                    self.spool.documents,
                    self.spool.folder,
                )
        self._writer.close()
        await self._destination.close()
        return left

    def _on_replay_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._on_failure(error)
