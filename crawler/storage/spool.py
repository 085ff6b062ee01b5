"""Documents on this machine's disk while MongoDB takes none: fsynced, bounded, and never left behind for good.

Each worker has a file of its own in a folder that it shares with others, and takes over what dead workers left there.
Files exist only while there is something in them. Errors of the disk harm nothing but the spool: what it does not take
waits in memory, as if there were none.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar, TypeVarTuple

from crawler.config import Config
from crawler.errors import ConfigError, SpoolDamagedError, SpoolError
from crawler.frontier.spools import Kept
from crawler.storage.documents import Document
from crawler.storage.spoolfile import SUFFIX, Entry, Part, SpoolFile

logger = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Documents by the collection where they belong: a batch.
Groups = Mapping[str, Sequence[Document]]


class Spool:
    """Keep batches in files in *folder*, *limit_bytes* at most, those of dead workers that it took over included.

    count(name, number) is told how many documents were `spooled`.
    """

    def __init__(self, folder: Path, limit_bytes: int, count: Callable[[str, float], Any]) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._count = count
        self._name = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
        self._made = 0
        #: Where batches are put; there is none while nothing was put into it.
        self._own: SpoolFile | None = None
        #: All that this worker has locked; only the thread changes it.
        self._files: list[SpoolFile] = []
        #: Names of files that are no more, here or anywhere: whoever noted them is to forget them (spools.py).
        self.gone: set[str] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._complaint = ""
        #: Set when there may be more in it than before.
        self.filled = asyncio.Event()

    @classmethod
    def of(cls, config: Config, count: Callable[[str, float], Any]) -> Self | None:
        """Return the spool that the settings want, if any. Raises ConfigError where its folder can't be used."""
        if not config.store_spool_dir or not config.store_spool_bytes:
            return None
        # What waits for one database is of no use in another.
        folder = Path(config.store_spool_dir).absolute() / config.mongo_database
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"STORE_SPOOL_DIR={config.store_spool_dir}: {error.strerror} ({folder})") from None
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise ConfigError(f"STORE_SPOOL_DIR={config.store_spool_dir}: this user can't write there ({folder})")
        return cls(folder, config.store_spool_bytes, count)

    # -- what is in it

    @property
    def files(self) -> Mapping[str, Kept]:
        """Return what each file holds that this worker has, by its name."""
        return {
            self._name_of(file): Kept(file.documents, file.size_bytes, file.oldest_s) for file in tuple(self._files)
        }

    @property
    def documents(self) -> int:
        """Return how many documents wait in it."""
        return sum(file.documents for file in tuple(self._files))

    @property
    def size_bytes(self) -> int:
        """Return their bytes."""
        return sum(file.size_bytes for file in tuple(self._files))

    @property
    def oldest_s(self) -> float:
        """Return since when the oldest of them waits, seconds since 1970; 0: none does."""
        return min((file.oldest_s for file in tuple(self._files) if file.documents), default=0.0)

    # -- in and out

    async def keep(self, groups: Groups) -> bool:
        """Put a batch in; True when it is on the disk, False when there is no room or the disk does not take it."""
        is_kept = await self._in_thread(self._append, groups)
        if is_kept:
            self._count("spooled", sum(map(len, groups.values())))
            self.filled.set()
        return is_kept

    async def oldest(self) -> Entry | None:
        """Return what is to go to MongoDB next; None if there is nothing. Raises SpoolError."""
        return await self._in_thread(self._oldest)

    async def remove(self, entry: Entry) -> None:
        """Remove what `oldest` gave, since MongoDB has it. Raises SpoolError."""
        await self._in_thread(self._remove, entry)

    async def adopt(self) -> None:
        """Take over the files of dead workers, for as long as there is room."""
        await self._in_thread(self._adopt)
        self.filled.set()

    async def close(self) -> None:
        """Let go of all files; what is in them waits for another worker."""
        await self._in_thread(self._close)
        self._thread.shutdown(wait=False)

    # -- in the thread

    async def _in_thread(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _append(self, groups: Groups) -> bool:
        parts = [
            Part(name, len(documents), b"".join(document.raw for document in documents))
            for name, documents in groups.items()
        ]
        if self.size_bytes + sum(len(part.bson) for part in parts) > self.limit_bytes:
            self._refuse(f"it is at its limit of {self.limit_bytes:,} bytes (STORE_SPOOL_BYTES)")
            return False
        try:
            if self._own is None:
                self._own = self._create()
            self._own.append(parts)
        except SpoolDamagedError as error:
            if self._own is not None:
                self._set_aside(self._own, error)
        except SpoolError as error:
            self._refuse(str(error))
        else:
            self._complaint = ""
            return True
        return False

    def _create(self) -> SpoolFile:
        self._made += 1
        path = self.folder / f"{self._name}-{self._made}{SUFFIX}"
        file = SpoolFile.locked(path)
        if file is None:
            raise SpoolError(f"{path}: another process has locked it")
        try:
            file.open()
        except SpoolError:
            file.delete()
            raise
        self._files.append(file)
        logger.warning("Documents are kept in %s until MongoDB takes them", path)
        return file

    def _oldest(self) -> Entry | None:
        for file in sorted(self._files, key=lambda file: file.oldest_s):
            try:
                if entry := file.oldest():
                    return entry
                self._finish(file)
            except SpoolDamagedError as error:
                self._set_aside(file, error)
        return None

    def _remove(self, entry: Entry) -> None:
        try:
            entry.file.remove(entry)
        except SpoolDamagedError as error:
            self._set_aside(entry.file, error)
            return
        if not entry.file.documents:
            self._finish(entry.file)

    def _finish(self, file: SpoolFile) -> None:
        """Let go of a file that gives no more."""
        if file.is_damaged:
            self._set_aside(file, SpoolDamagedError(f"{file.path}: some batches are not what was written"))
            return
        self._drop(file)
        file.delete()
        self.gone.add(self._name_of(file))
        logger.info("MongoDB has all documents of %s", file.path)

    def _adopt(self) -> None:
        try:
            paths = sorted(self.folder.glob(f"*{SUFFIX}"))
        except OSError as error:
            self._complain(f"Can't take over a spool: {self.folder}: {error.strerror}")
            return
        for path in paths:
            if self.size_bytes >= self.limit_bytes:
                return
            try:
                self._adopt_one(path)
            except SpoolError as error:
                self._complain(f"Can't take over a spool: {error}")

    def _adopt_one(self, path: Path) -> None:
        file = SpoolFile.locked(path)
        if file is None:
            return
        try:
            # Whoever had the lock before may have removed it.
            if file.is_there:
                file.open()
        except SpoolDamagedError as error:
            self._set_aside(file, error)
            return
        except SpoolError:
            file.close()
            raise
        if not file.documents:
            file.delete()
            self.gone.add(self._name_of(file))
            return
        self._files.append(file)
        logger.info("Took over %s, where a worker left %d documents", path, file.documents)

    def _close(self) -> None:
        for file in self._files:
            file.close()

    def _drop(self, file: SpoolFile) -> None:
        if file in self._files:
            self._files.remove(file)
        if file is self._own:
            self._own = None

    def _set_aside(self, file: SpoolFile, error: SpoolDamagedError) -> None:
        self._drop(file)
        self.gone.add(self._name_of(file))
        try:
            place = f"It is now {file.set_aside()}"
        except SpoolError as failure:
            place = f"It could not be set aside ({failure})"
        logger.critical(
            "A spool is damaged: %s. %s, with documents that MongoDB has not got: docs/operations.md#spools tells how "
            "to save them",
            error,
            place,
        )

    def _name_of(self, file: SpoolFile) -> str:
        return f"{self.folder.name}/{file.path.stem}"

    def _refuse(self, why: str) -> None:
        self._complain(f"The spool takes no documents: {why}. They wait in memory for MongoDB")

    def _complain(self, complaint: str) -> None:
        """Say once what is wrong."""
        if complaint != self._complaint:
            self._complaint = complaint
            logger.error("%s", complaint)
