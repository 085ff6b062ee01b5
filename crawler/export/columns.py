"""The columns of a table, and what they hold: found by a pass over the documents that keeps names and types alone."""

import enum
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from bson import Binary

from crawler.errors import StorageError

#: Integers up to here are floats without loss.
EXACT_IN_FLOAT = 1 << 53


class Kind(enum.Flag):
    """What stands in a column: what was found in it, or-ed."""

    NOTHING = 0
    BOOL = enum.auto()
    INT = enum.auto()
    #: An integer that no float holds exactly.
    LONG = enum.auto()
    FLOAT = enum.auto()
    TIME = enum.auto()
    BYTES = enum.auto()
    #: And whatever is written as text: decimals, documents, arrays.
    TEXT = enum.auto()

    @classmethod
    def of(cls, value: object) -> "Kind":
        """Return the kind of one value."""
        if value is None:
            return cls.NOTHING
        if isinstance(value, bool):
            return cls.BOOL
        if isinstance(value, int):
            return cls.INT if -EXACT_IN_FLOAT <= value <= EXACT_IN_FLOAT else cls.LONG
        if isinstance(value, float):
            return cls.FLOAT
        if isinstance(value, datetime):
            return cls.TIME
        if isinstance(value, bytes) and not (isinstance(value, Binary) and value.subtype):
            return cls.BYTES
        return cls.TEXT

    @property
    def widened(self) -> "Kind":
        """Return the one kind that holds all of these without loss: integers, floats, and at last text."""
        if self in (Kind.BOOL, Kind.TIME, Kind.BYTES, Kind.FLOAT):
            return self
        if self and self in Kind.INT | Kind.LONG:
            return Kind.LONG
        if self and self in Kind.INT | Kind.FLOAT:
            return Kind.FLOAT
        return Kind.TEXT


def survey(documents: Iterable[Mapping[str, Any]], tell: Callable[[int], None]) -> dict[str, Kind]:
    """Return the names of all fields, in the order in which they first come, each with its one kind. O(documents).

    tell(documents) is called after each.
    """
    found: dict[str, Kind] = {}
    for count, document in enumerate(documents, start=1):
        for name, value in document.items():
            found[name] = found.get(name, Kind.NOTHING) | Kind.of(value)
        tell(count)
    return {name: kind.widened for name, kind in found.items()}


def changed_meanwhile(what: str) -> StorageError:
    """Return the error of a document that came after the survey and does not fit it."""
    return StorageError(f"{what} came while the collection was exported, and has no place in the table: export again")
