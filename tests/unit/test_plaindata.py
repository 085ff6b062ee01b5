"""Plain data comes back equal and of the same type; whatever else is refused with its place."""

import collections
import contextlib
import enum
import threading
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.plaindata import MAX_DEPTH, ForeignValueError, pack, unpack

from .data_strategies import plain_values, same


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 9


class Point(NamedTuple):
    x: int
    y: int


class Moment(datetime):
    pass


class Liar(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


@given(plain_values)
def test_every_plain_value_comes_back(value: Any) -> None:
    assert same(unpack(pack(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        -(2**4000),
        "\udc80 alone",
        b"\x00\xff",
        bytearray(b"x"),
        {1: "int", "1": "str", (1, 2): "tuple", None: 0, frozenset({3}): b"", False: 2, "\ud800": 1},
        ((), [], {}, set(), frozenset()),
        {"nested": [({1, (2, frozenset({3}))},)]},
        Decimal("0.10"),
        Decimal("-Infinity"),
        uuid.UUID(int=7),
        date.max,
        time(1, 2, 3, 4, fold=1),
        time(1, tzinfo=timezone(timedelta(hours=-3, seconds=7))),
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime.min,  # noqa: DTZ901 - a naive one is data too
        timedelta.min,
    ],
    ids=repr,
)
def test_values_that_messagepack_lacks(value: Any) -> None:
    assert same(unpack(pack(value)), value)


def test_a_named_zone_stays_that_zone() -> None:
    zone = ZoneInfo("Europe/Berlin")
    assert unpack(pack(datetime(2024, 7, 1, tzinfo=zone))).tzinfo is zone


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 9),
        (Point(1, 2), (1, 2)),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, {1: [2]}), {1: [2]}),
        (Moment(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_an_instance_of_a_subclass_becomes_the_base_value_that_it_equals(value: Any, plain: Any) -> None:
    back = unpack(pack([value]))[0]
    assert back == value
    assert same(back, plain)


class Shifting(tzinfo):
    """A zone without a name, whose offset only it knows."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=when.fold if when else 0)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, when: datetime | None) -> str:
        return "shifting"


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "what", "path"),
    [
        ({"x": [1, 2, 3, threading.Lock()]}, "a _thread.lock", ("x", 3)),
        ({"x": {5: (object(),)}}, "a object", ("x", 5, 0)),
        ([lambda: None], "a function", (0,)),
        ({Ellipsis: 1}, "a ellipsis as a key", ()),
        ({"it": {(1, Ellipsis): 1}}, "a ellipsis as a key", ("it",)),
        ((n for n in ()), "a generator", ()),
        ({"t": 1j}, "a complex", ("t",)),
        (["red", Liar("red")], "which differs from the str that it would be stored as", (1,)),
        ([datetime(2024, 1, 1, fold=1, tzinfo=Shifting())], "which has no fixed offset", (0,)),
    ],
)
def test_foreign_values_are_refused_with_their_place(value: Any, what: str, path: tuple[Any, ...]) -> None:
    with pytest.raises(ForeignValueError) as caught:
        pack(value)
    assert caught.value.what.endswith(what)
    assert caught.value.path == path


def test_a_value_that_contains_itself_is_refused() -> None:
    with pytest.raises(ForeignValueError, match="does it contain itself"):
        pack(endless())


def test_as_deep_as_allowed_comes_back() -> None:
    value: Any = "bottom"
    for level in range(MAX_DEPTH):
        value = (value,) if level % 2 else {level: value}
    assert unpack(pack(value)) == value


@given(
    st.binary(max_size=60)
    | plain_values.map(pack).flatmap(lambda data: st.integers(0, len(data)).map(lambda n: data[:n]))
)
def test_foreign_bytes_raise_only_the_named_errors(data: bytes) -> None:
    with contextlib.suppress(ValueError, TypeError, ArithmeticError, OSError, RecursionError):
        unpack(data)
