"""The writer of Parquet: columns with types, in row groups of bounded size (the extra `parquet`)."""

from collections.abc import Mapping
from typing import IO, Any

from crawler.errors import ConfigError
from crawler.export.columns import Kind, changed_meanwhile
from crawler.export.values import as_text

#: A row group has at most so many rows, or so many bytes of text (about), which is what the writer keeps.
GROUP_ROWS, GROUP_BYTES = 50_000, 32 << 20
#: What a cell costs besides its text.
_CELL_BYTES = 8


class Parquet:
    """Write documents as rows, nested ones as JSON text."""

    def __init__(
        self,
        stream: IO[bytes],
        columns: Mapping[str, Kind],
        *,
        group_rows: int = GROUP_ROWS,
        group_bytes: int = GROUP_BYTES,
    ) -> None:
        """Raises ConfigError where pyarrow is not installed."""
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise ConfigError("Parquet wants pyarrow, the extra `parquet`: pip install 'seedbed[parquet]'") from None
        types = {
            Kind.BOOL: pa.bool_(),
            Kind.LONG: pa.int64(),
            Kind.FLOAT: pa.float64(),
            Kind.TIME: pa.timestamp("ms", "UTC"),
            Kind.BYTES: pa.binary(),
            Kind.TEXT: pa.string(),
        }
        self._columns = columns
        self._schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
        self._writer = pq.ParquetWriter(stream, self._schema, compression="zstd")
        self._new_batch = pa.RecordBatch.from_pydict
        self._group_rows = group_rows
        self._group_bytes = group_bytes
        self._cells: dict[str, list[Any]] = {name: [] for name in columns}
        self._rows = 0
        self._size_bytes = 0

    def write(self, document: Mapping[str, Any]) -> None:
        """Take a row in. Raises StorageError for a field that has no column, and a value that does not fit its own."""
        if not document.keys() <= self._columns.keys():
            raise changed_meanwhile(f"the field {min(document.keys() - self._columns.keys())!r}")
        for name, kind in self._columns.items():
            cell = _cell(name, kind, document.get(name))
            self._cells[name].append(cell)
            self._size_bytes += _CELL_BYTES + (len(cell) if isinstance(cell, str | bytes) else 0)
        self._rows += 1
        if self._rows >= self._group_rows or self._size_bytes >= self._group_bytes:
            self._write_group()

    def close(self) -> None:
        """Write the last row group and the end of the file."""
        if self._rows:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        self._writer.write_batch(self._new_batch(self._cells, schema=self._schema), row_group_size=self._rows)
        self._cells = {name: [] for name in self._columns}
        self._rows = self._size_bytes = 0


def _cell(name: str, kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind is Kind.TEXT:
        return as_text(value)
    if (Kind.of(value) | kind).widened is not kind:
        raise changed_meanwhile(f"another kind of value in {name!r}")
    return float(value) if kind is Kind.FLOAT else bytes(value) if kind is Kind.BYTES else value
