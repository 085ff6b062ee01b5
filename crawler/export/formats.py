"""The writers of the formats: a document in, some bytes out, nothing kept."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import IO, Any, Protocol

from crawler.export.columns import changed_meanwhile
from crawler.export.values import as_text, json_bytes


class Writer(Protocol):
    """Writes documents to a stream that it does not close."""

    def write(self, document: Mapping[str, Any]) -> None:
        """Write one. Raises StorageError when it has no place in the table."""

    def close(self) -> None:
        """Write what is left."""


class JsonLines:
    """A document a line, its nested documents as they are."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, document: Mapping[str, Any]) -> None:
        """Write one."""
        self._stream.write(json_bytes(document) + b"\n")

    def close(self) -> None:
        """Do nothing: all is written."""


class Csv:
    """A document a row, as RFC 4180 has it; what is missing or null is empty, what is nested is JSON."""

    def __init__(self, stream: IO[bytes], columns: Iterable[str]) -> None:
        self._columns = list(columns)
        self._known = frozenset(self._columns)
        self._text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        self._rows = csv.writer(self._text)
        if self._columns:
            self._rows.writerow(self._columns)

    def write(self, document: Mapping[str, Any]) -> None:
        """Write a row. Raises StorageError for a field that has no column."""
        if not document.keys() <= self._known:
            raise changed_meanwhile(f"the field {min(document.keys() - self._known)!r}")
        self._rows.writerow([as_text(document.get(name)) for name in self._columns])

    def close(self) -> None:
        """Let go of the stream."""
        self._text.detach()


class Counted(io.BufferedIOBase):
    """A stream that counts what is written, and may be a pipe; what is written after `abandon` is dropped.

    Closing it leaves the other stream open.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._size_bytes = 0
        self._is_abandoned = False

    def abandon(self) -> None:
        """Let go of the other stream: a writer that is given up may still want to write its end."""
        self._is_abandoned = True

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        if not self._is_abandoned:
            self._stream.write(data)
        size_bytes = memoryview(data).nbytes
        self._size_bytes += size_bytes
        return size_bytes

    def flush(self) -> None:
        """Flush the other one."""
        if not self._is_abandoned and not self._stream.closed:
            self._stream.flush()

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size_bytes

    def writable(self) -> bool:
        """Say yes."""
        return True
