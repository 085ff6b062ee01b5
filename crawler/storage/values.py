"""What MongoDB lacks, as what it has: how each value of an item is stored (the table is in docs/storage.md).

What has no place there is refused, and so is what is nested deeper than 100 levels or holds itself.
"""

import datetime
import enum
import uuid
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from decimal import Decimal, DecimalException
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from bson import Binary, Decimal128, ObjectId
from itemadapter import ItemAdapter

from crawler.errors import NotStorableError

#: MongoDB's documented limit, the document itself included.
MAX_DEPTH = 100
#: No document of 16 MB holds more values: in an array of that length each takes eight bytes or more.
MAX_VALUES = 2_000_000

_INT64 = range(-(1 << 63), 1 << 63)
_KEPT = frozenset({type(None), bool, float, bytes, ObjectId, Decimal128, Binary})

#: Names and values; a dict where the names are known to be plain and free.
Fields = Iterable[tuple[object, object]] | dict[str, Any]


def to_document(fields: Fields) -> dict[str, Any]:
    """Return *fields* as a document that BSON can encode: see `Conversion.document`."""
    return Conversion().document(fields)


def named(fields: Iterable[tuple[object, object]], taken: Container[str] = ()) -> dict[str, Any]:
    """Return the values by the names under which they are stored, none of which is *taken*."""
    document: dict[str, Any] = {}
    for key, value in fields:
        name = key if type(key) is str and key.isidentifier() and key.isascii() else _field_name(key)
        while name in document or name in taken:
            name += "_"
        document[name] = value
    return document


def clean_text(text: str) -> str:
    """Return *text* with lone surrogates, which UTF-8 lacks, written as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def plain_name(field: str) -> str:
    """Return the name that is stored as *field*, where it was a text without `%` and was not taken."""
    return field.replace("%2E", ".").replace("%24", "$").replace("%00", "\0")


class Conversion:
    """Convert one document, and stop when it becomes too large to be one."""

    #: How many values it has, containers included.
    values = 0
    #: How many characters its texts have that are not wholly ASCII: in memory each takes up to four bytes, and UTF-8's.
    wide_characters = 0

    def document(self, fields: Fields, taken: Container[str] = (), depth: int = 1) -> dict[str, Any]:
        """Return *fields* as a document that BSON can encode, without the names that are *taken*. O(values).

        Fields that are a dict have plain names that are not taken; that very dict becomes the document.
        Raises NotStorableError, which says what stands where. What the fields' own classes raise passes through.
        """
        document = fields if isinstance(fields, dict) else named(fields, taken)
        self._grow(1 + len(document), depth)
        for name, value in document.items():
            kind = type(value)
            # Most values are plain text or kept as they are; a call for each would double the cost.
            if kind is str:
                if not value.isascii():
                    document[name] = self._text(value)
                continue
            if kind in _KEPT:
                continue
            if convert := _SCALARS.get(kind):
                document[name] = convert(value)
                continue
            try:
                document[name] = self._value(value, depth)
            except NotStorableError as error:
                raise error.within(name) from None
        return document

    def _array(self, values: Iterable[object], depth: int) -> list[Any]:
        self._grow(1, depth)
        array: list[Any] = []
        try:
            array.extend(self._value(value, depth) for value in values)
        except NotStorableError as error:
            raise error.within(len(array)) from None
        self._grow(len(array), depth)
        return array

    def _grow(self, values: int, depth: int) -> None:
        self.values += values
        if self.values > MAX_VALUES:
            raise NotStorableError(f"more than {MAX_VALUES:,} values")
        if depth > MAX_DEPTH:
            raise NotStorableError(f"more than {MAX_DEPTH} levels (does it hold itself?)")

    def _text(self, text: str) -> str:
        self.wide_characters += len(text)
        return clean_text(text)

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _KEPT:
            return value
        if kind is str:
            return value if value.isascii() else self._text(value)
        if convert := _SCALARS.get(kind):
            return convert(value)
        if kind is list:
            return self._array(value, depth + 1)
        if kind is dict:
            return self.document(value.items(), depth=depth + 1)
        if isinstance(value, enum.Enum):
            return self._value(value.value, depth)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        for base, convert in _SCALARS.items():
            if isinstance(value, base):
                return convert(value)
        if isinstance(value, list | tuple | deque):
            return self._array(value, depth + 1)
        if isinstance(value, set | frozenset):
            return _sorted(self._array(value, depth + 1))
        if isinstance(value, Mapping):
            return self.document(iter(value.items()), depth=depth + 1)
        if ItemAdapter.is_item(value):
            return self.document(ItemAdapter(value).items(), depth=depth + 1)
        raise NotStorableError(f"a {kind.__module__}.{kind.__qualname__}")


def _field_name(key: object) -> str:
    name = key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)
    if name.startswith("$"):
        name = f"%24{name[1:]}"
    return clean_text(name.replace(".", "%2E").replace("\0", "%00"))


def _integer(value: int) -> int | str:
    value = int.__int__(value)
    if value in _INT64:
        return value
    try:
        return str(value)
    except ValueError:  # Python refuses to spend quadratic time on it
        return hex(value)


@lru_cache(maxsize=8192)  # prices come again and again, and PyMongo takes 4 µs
def _decimal(text: str) -> Decimal128 | str:
    try:
        return Decimal128(text)
    except DecimalException:
        return text


def _moment(value: datetime.datetime) -> datetime.datetime | str:
    try:
        moment = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
    except OverflowError:
        return datetime.datetime.isoformat(value)
    return datetime.datetime.combine(moment.date(), moment.time(), datetime.UTC)


def _sorted(members: list[Any]) -> list[Any]:
    """Sort what may be of several types: the same set always gives the same array."""
    kinds = {type(member) for member in members}
    return sorted(members) if kinds <= {str} or kinds <= {int} else sorted(members, key=repr)


#: How a value of each type, or of a class derived from it, becomes one of BSON's; the first that fits counts. What
#: comes out is of BSON's types exactly: no code of the value's own class runs later, when it is sent in a batch.
_SCALARS: dict[type, Callable[[Any], Any]] = {
    int: _integer,
    float: float.__float__,
    Decimal: lambda value: _decimal(Decimal.__str__(value)),
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: bytes,
    memoryview: bytes,
    datetime.datetime: _moment,
    datetime.date: lambda value: datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC),
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: datetime.timedelta.total_seconds,
    uuid.UUID: Binary.from_uuid,
    PurePath: lambda value: clean_text(str(value)),
}
