"""One file of a spool: batches of encoded documents in SQLite, each fsynced, in a file that is locked while in use.

Beside `NAME.spool` lies `NAME.lock`, locked by whoever works on the file. One whose lock is free was left by a worker
that is gone, and whoever gets the lock may go on with it. No name is given twice, and the lock is removed after the
file: so who gets the lock of a file that is still there has it alone.

Everything here blocks, and belongs in a thread.
"""

import fcntl
import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from crawler.errors import SpoolDamagedError, SpoolError
from crawler.storage.documents import Document

logger = logging.getLogger(__name__)

SUFFIX, LOCK_SUFFIX, DAMAGED_SUFFIX = ".spool", ".lock", ".damaged"


class Part(NamedTuple):
    """One collection's part of a batch, to be put in."""

    collection: str
    documents: int
    #: One behind the other.
    bson: bytes


# Alone with its file, SQLite needs no memory that is shared with others, which not every file system has. In FULL mode
# each commit waits until the log is on the disk.
_PRAGMAS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "journal_size_limit = 4194304")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kept_s REAL NOT NULL,       -- when it was put here, seconds since 1970
    collection TEXT NOT NULL,
    documents INTEGER NOT NULL, -- how many
    bson BLOB NOT NULL,         -- one behind the other
    crc32 INTEGER NOT NULL      -- of bson: SQLite itself would not notice other bytes
)"""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_RAW = CodecOptions(document_class=RawBSONDocument)


class Entry(NamedTuple):
    """One collection's part of a batch, as it is given back."""

    file: "SpoolFile"
    number: int
    documents: list[Document]
    size_bytes: int


class SpoolFile:
    """Hold one file, which is created if need be, and its lock. Raises SpoolError and SpoolDamagedError."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._connection: sqlite3.Connection | None = None
        #: The last batch that is not to be given any more.
        self._passed = 0
        #: Whether batches were passed over that are not what was written.
        self.is_damaged = False
        #: What is in it.
        self.documents = 0
        self.size_bytes = 0
        #: Since when the oldest of that is here, seconds since 1970; 0: nothing is.
        self.oldest_s = 0.0

    @classmethod
    def locked(cls, path: Path) -> Self | None:
        """Return the file at *path*, locked but not opened; None when somebody else works on it."""
        with _named(path):
            lock = os.open(path.with_suffix(LOCK_SUFFIX), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return None
            except OSError:
                os.close(lock)
                raise
        return cls(path, lock)

    @property
    def is_there(self) -> bool:
        """Tell whether there is such a file."""
        with _named(self.path):
            return self.path.exists()

    def open(self) -> None:
        """Open it, or create it, and count what is in it. O(batches)."""
        with _named(self.path):
            self._connection = sqlite3.connect(self.path, timeout=0, check_same_thread=False)
            for pragma in _PRAGMAS:
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute(_SCHEMA)
            found = self._connection.execute("SELECT total(documents), total(length(bson)) FROM batches").fetchone()
            self.documents, self.size_bytes = map(int, found)
            self._note_oldest()

    def append(self, parts: Sequence[Part]) -> None:
        """Put a batch in: when this returns, it is on the disk, wholly; when it raises, none of it counts."""
        kept_s = time.time()
        rows = [(kept_s, *part, zlib.crc32(part.bson)) for part in parts]
        with _named(self.path), self._open_connection as connection:
            connection.executemany(
                "INSERT INTO batches (kept_s, collection, documents, bson, crc32) VALUES (?, ?, ?, ?, ?)", rows
            )
        self.documents += sum(part.documents for part in parts)
        self.size_bytes += sum(len(part.bson) for part in parts)
        self.oldest_s = self.oldest_s or kept_s

    def oldest(self) -> Entry | None:
        """Return what was put in first and is not removed, None if there is nothing; what is damaged is passed over."""
        with _named(self.path):
            while row := self._next("number, collection, documents, bson, crc32"):
                number, collection, documents, part, crc32 = row
                if zlib.crc32(part) == crc32:
                    found = [
                        Document.encoded(collection, bytes(document.raw)) for document in bson.decode_all(part, _RAW)
                    ]
                    return Entry(self, number, found, len(part))
                logger.error("%s: batch %d is not what was written", self.path, number)
                self.is_damaged = True
                self._pass(number, documents, len(part))
            return None

    def remove(self, entry: Entry) -> None:
        """Remove what `oldest` gave.

        On a full disk nothing can be removed, as that has to be written down, too: it is taken for removed all the
        same, for room comes with the end of the whole file, and what is written to MongoDB twice changes nothing.
        """
        with _named(self.path):
            try:
                with self._open_connection as connection:
                    connection.execute("DELETE FROM batches WHERE number = ?", (entry.number,))
            except sqlite3.OperationalError as error:
                logger.debug("%s: can't remove a batch (%s)", self.path, error)
            self._pass(entry.number, len(entry.documents), entry.size_bytes)

    def close(self) -> None:
        """Let go of it, for another worker to go on with."""
        with _named(self.path):
            try:
                if self._connection is not None:
                    self._connection.close()
            finally:
                os.close(self._lock)

    def delete(self) -> None:
        """Remove it from the disk, and let go of it."""
        self._leave(lambda path, _: path.unlink(missing_ok=True))

    def set_aside(self) -> Path:
        """Give it a name under which nobody takes it, and let go of it; return its path."""
        damaged = self.path.with_suffix(DAMAGED_SUFFIX)
        self._leave(lambda path, end: path.rename(damaged.with_name(damaged.name + end)))
        return damaged

    def _leave(self, act: Callable[[Path, str], object]) -> None:
        """Do something to all that SQLite made for it, then let go of it."""
        with _named(self.path):
            try:
                if self._connection is not None:
                    self._connection.close()
                for end in ("-journal", "-wal", "-shm", ""):
                    path = self.path.with_name(self.path.name + end)
                    if path.exists():
                        act(path, end)
                self.path.with_suffix(LOCK_SUFFIX).unlink(missing_ok=True)
            finally:
                os.close(self._lock)

    @property
    def _open_connection(self) -> sqlite3.Connection:
        assert self._connection is not None  # noqa: S101 - for the type checker
        return self._connection

    def _pass(self, number: int, documents: int, size_bytes: int) -> None:
        """Count a batch as gone."""
        self._passed = number
        self.documents -= documents
        self.size_bytes -= size_bytes
        self._note_oldest()

    def _note_oldest(self) -> None:
        row = self._next("kept_s")
        self.oldest_s = row[0] if row else 0.0

    def _next(self, columns: str) -> Any:
        return self._open_connection.execute(
            f"SELECT {columns} FROM batches WHERE number > ? ORDER BY number LIMIT 1",  # noqa: S608 - of this file
            (self._passed,),
        ).fetchone()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the system into this project's, which name the file."""
    try:
        yield
    except BSONError as error:
        raise SpoolDamagedError(f"{path}: {error}") from error
    except sqlite3.Error as error:
        is_damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
        raise (SpoolDamagedError if is_damaged else SpoolError)(f"{path}: {error}") from error
    except OSError as error:
        raise SpoolError(f"{path}: {error.strerror}") from error
