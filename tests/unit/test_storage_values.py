"""What BSON lacks is stored as what it has, and nothing that a spider may yield breaks the storage."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections import OrderedDict, UserDict, deque, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import bson
import pytest
import scrapy
from bson import Binary, Decimal128
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import NotStorableError
from crawler.storage.values import MAX_DEPTH, Conversion, to_document

from .data_strategies import hashable_values, plain_values, texts


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


class Money(float):
    pass


class Shout(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not what it equals"


@dataclass
class Inner:
    price: Decimal


class InnerItem(scrapy.Item):
    day = scrapy.Field()


Point = namedtuple("Point", "x y")
_PLUS_2 = dt.timezone(dt.timedelta(hours=2))
_UTC = dt.UTC


def stored(value: object) -> Any:
    """Return what MongoDB gives back for a value."""
    options: Any = bson.CodecOptions(tz_aware=True, tzinfo=_UTC)
    return bson.decode(bson.encode(to_document([("v", value)])), options)["v"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (-(2**63), -(2**63)),
        (2**63, "9223372036854775808"),
        (-(2**63) - 1, "-9223372036854775809"),
        (1.5, 1.5),
        (float("inf"), float("inf")),
        ("ü\0", "ü\0"),
        ("a\ud800b", "a\\ud800b"),
        (b"\xff", b"\xff"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (Decimal("1.10"), Decimal128("1.10")),
        (Decimal("1." + "3" * 40), "1." + "3" * 40),
        (Decimal("1E+7000"), "1E+7000"),
        (Decimal("-Infinity"), Decimal128("-Infinity")),
        (dt.datetime(2026, 11, 30, 12, 0, 1, 234567), dt.datetime(2026, 11, 30, 12, 0, 1, 234000, _UTC)),  # noqa: DTZ001 - as spiders parse them
        (dt.datetime(2026, 11, 30, 12, tzinfo=_PLUS_2), dt.datetime(2026, 11, 30, 10, tzinfo=_UTC)),
        (dt.datetime(1, 1, 1, tzinfo=_PLUS_2), "0001-01-01T00:00:00+02:00"),
        (dt.date(2026, 11, 30), dt.datetime(2026, 11, 30, tzinfo=_UTC)),
        (dt.time(12, 30), "12:30:00"),
        (dt.timedelta(minutes=1.5), 90.0),
        (uuid.UUID(int=5), Binary(uuid.UUID(int=5).bytes, 4)),
        (PurePosixPath("/a/b"), "/a/b"),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (Money(2.5), 2.5),
        (Shout("quiet"), "quiet"),
        ((1, (2,)), [1, [2]]),
        (deque([1]), [1]),
        (Point(1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({10, 9}, [9, 10]),
        (frozenset([frozenset([2, 1])]), [[1, 2]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": {1}}), {"a": [1]}),
        (Inner(Decimal(5)), {"price": Decimal128("5")}),
        ([InnerItem(day=dt.time(1))], [{"day": "01:00:00"}]),
    ],
)
def test_each_kind_of_value(value: object, expected: object) -> None:
    """Case M9: a date, a Decimal, bytes come out as the same value every time."""
    assert stored(value) == expected
    assert isinstance(stored(value), type(expected))


def test_no_code_of_a_value_runs_after_it_was_taken() -> None:
    def own(base: type, *args: Any) -> Any:
        return type(f"Own{base.__name__}", (base,), {})(*args)

    values = [
        own(str, "a"),
        own(str, "\ud800"),
        own(int, 5),
        own(int, 2**70),
        own(float, 1.5),
        own(Decimal, "1.10"),
        own(Decimal, "1E+7000"),
        own(bytes, b"a"),
        own(bytearray, b"a"),
        own(dt.datetime, 2026, 11, 30),
        own(dt.datetime, 1, 1, 1, 0, 0, 0, 0, _PLUS_2),
        own(dt.date, 2026, 11, 30),
        own(dt.time, 12),
        own(dt.timedelta, 1),
        own(uuid.UUID, "0" * 32),
        own(list, [1]),
        own(dict, {"a": 1}),
        own(set, {1}),
    ]
    kept = to_document([("v", values)])["v"]
    assert {type(value) for value in kept} == {str, int, float, Decimal128, bytes, dt.datetime, Binary, list, dict}


def test_names_that_a_mapping_gives_are_never_taken_as_they_are() -> None:
    class Odd(UserDict[str, int]):
        def items(self) -> Any:
            return {"$set": 1}

    with pytest.raises(ValueError, match="unpack"):
        to_document([("v", Odd())])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b", "a%2Eb"),
        ("$set", "%24set"),
        ("a$b", "a$b"),
        ("a\0b", "a%00b"),
        ("\ud800", "\\ud800"),
        ("", ""),
        (5, "5"),
        (None, "None"),
        (b"raw", "raw"),
        (b"\xff", "\\xff"),
        ((1, 2), "(1, 2)"),
    ],
    ids=repr,
)
def test_each_kind_of_key(key: object, expected: str) -> None:
    assert stored({key: 1}) == {expected: 1}


def test_no_key_takes_the_place_of_another() -> None:
    assert stored({1: "number", "1": "text", "a.b": "dot", "a%2Eb": "escaped"}) == {
        "1": "number",
        "1_": "text",
        "a%2Eb": "dot",
        "a%2Eb_": "escaped",
    }
    assert Conversion().document([("_id", 1), (b"_id", 2)], taken={"_id"}) == {"_id_": 1, "_id__": 2}


def test_an_int_that_python_does_not_print_is_stored_nevertheless() -> None:
    assert stored(10**5000) == hex(10**5000)


def test_a_foreign_value_is_named_with_its_place() -> None:
    with pytest.raises(NotStorableError) as error:
        to_document([("rows", [{"ok": 1}, {"a.b": [1, {"lock": object()}]}])])
    assert str(error.value) == "['rows'][1]['a%2Eb'][1]['lock']: a builtins.object"


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_ends_where_mongodb_ends_it() -> None:
    assert stored(_nested(MAX_DEPTH - 1))
    with pytest.raises(NotStorableError, match="more than 100 levels"):
        to_document([("v", _nested(MAX_DEPTH))])


def test_what_holds_itself_is_refused() -> None:
    circle: list[object] = []
    circle += [circle, circle]
    with pytest.raises(NotStorableError, match="more than 100 levels"):
        to_document([("v", circle)])


def test_what_grows_without_end_is_refused() -> None:
    laughs: list[object] = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    with pytest.raises(NotStorableError, match="more than 2,000,000 values"):
        to_document([("v", laughs)])


@given(st.dictionaries(texts, plain_values, max_size=5))
def test_all_plain_data_can_be_stored(item: dict[str, Any]) -> None:
    document = to_document(item.items())
    assert bson.encode(document) == bson.encode(to_document(item.items()))
    assert len(document) == len(item)


@given(st.sets(hashable_values, max_size=6))
def test_a_set_always_comes_out_alike(members: set[Any]) -> None:
    filled_otherwise: set[Any] = set()
    for member in reversed(list(members)):
        filled_otherwise.add(member)
    assert bson.encode(to_document([("v", members)])) == bson.encode(to_document([("v", filled_otherwise)]))


@given(st.decimals())
def test_a_decimal_is_exact_or_text(value: Decimal) -> None:
    kept = to_document([("v", value)])["v"]
    assert str(kept.to_decimal() if isinstance(kept, Decimal128) else kept) == str(value)
