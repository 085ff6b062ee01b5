"""A whole export: the survey where the format wants one, the documents, and a file that appears when it is complete."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from crawler.errors import ConfigError
from crawler.export.columns import Kind, survey
from crawler.export.documents import Source
from crawler.export.formats import Counted, Csv, JsonLines, Writer
from crawler.export.parquet import Parquet

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")
#: The standard output.
STDOUT = "-"


class Exported(msgspec.Struct):
    """Say what was done."""

    collection: str
    output: str
    documents: int
    size_bytes: int
    #: None where the format has none.
    columns: list[str] | None
    #: Fields that were asked for, and that no document has.
    absent: list[str]


def export(name: str, source: Source, form: Format, output: str, tell: Callable[[str, int], None]) -> Exported:
    """Write the documents of *source* to the file *output*, or to the standard output. Memory: one reply of MongoDB.

    tell(what, documents) is called after each document. Raises ConfigError, StorageError, OSError and PyMongoError,
    and leaves no file then; one that was there stays as it was.
    """
    columns: dict[str, Kind] | None = None
    if form == "csv" and source.fields:
        columns = dict.fromkeys(source.fields, Kind.TEXT)
    elif form != "jsonl":
        columns = survey(source.documents(), lambda count: tell("documents surveyed", count))
        columns = {name: columns.get(name, Kind.TEXT) for name in source.fields or columns}
    count, absent = 0, set(source.fields)
    with _opened(output) as stream:
        try:
            writer = _writer(form, stream, columns or {})
            for count, document in enumerate(source.documents(), start=1):
                writer.write(document)
                absent.difference_update(document)
                tell("documents written", count)
            writer.close()
        except BaseException:
            stream.abandon()
            raise
        size_bytes = stream.tell()
    return Exported(name, output, count, size_bytes, None if columns is None else list(columns), sorted(absent))


def _writer(form: Format, stream: Any, columns: dict[str, Kind]) -> Writer:
    if form == "parquet":
        return Parquet(stream, columns)
    return Csv(stream, columns) if form == "csv" else JsonLines(stream)


@contextmanager
def _opened(output: str) -> Iterator[Counted]:
    if output == STDOUT:
        stream = Counted(sys.stdout.buffer)
        yield stream
        stream.flush()
        return
    path = Path(output)
    if path.is_dir():
        raise ConfigError(f"--output {output}: that is a folder; the name of a file is wanted")
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            yield Counted(file)
            _sync(file)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
