"""Plain data as bytes and back, every type kept: MessagePack, with an extension for each type that it lacks.

The types: None, bool, int of any size, float, str (lone surrogates too), bytes, bytearray, list, tuple, dict with any
keys that are data, set, frozenset, date, time, datetime, timedelta, Decimal, UUID. An instance of a subclass is stored
as the value of the base class that it equals.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec.msgpack import Ext

#: Levels that a value may be nested: more than data has, and what contains itself ends here.
MAX_DEPTH = 100

Bytes = bytes | memoryview

_encode = msgspec.msgpack.Encoder().encode


class ForeignValueError(Exception):
    """Tell that a value is no data: `what` stands in it where `path`, keys and indices, leads."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: tuple[object, ...] = ()


def pack(value: object) -> bytes:
    """Return *value* as bytes. Raises ForeignValueError."""
    return _encode(_simplify(value, 0))


def unpack(data: Bytes) -> Any:
    """Return what was packed. Other bytes raise ValueError, TypeError, ArithmeticError, OSError or RecursionError."""
    return _decoder.decode(data)


def _simplify(value: Any, depth: int) -> Any:
    """Return *value* in MessagePack's own types and extensions."""
    kind = type(value)
    if kind in _NATIVE:
        return value
    if depth > MAX_DEPTH:
        raise ForeignValueError(f"more than {MAX_DEPTH} levels (does it contain itself?)")
    if kind is str and (value.isascii() or _is_unicode(value)):
        return value
    if kind is int and -(1 << 63) <= value < 1 << 64:
        return value
    if kind is list:
        return _items(value, depth)
    if kind is dict:
        return _simplify_dict(value, depth)
    if kind in _EXTENSIONS:
        return Ext(_EXTENSIONS[kind].code, _EXTENSIONS[kind].pack(value, depth))
    return _simplify_subclass(value, depth)


def _items(values: Iterable[object], depth: int) -> list[Any]:
    simple: list[Any] = []
    try:
        for value in values:
            simple.append(_simplify(value, depth + 1))  # noqa: PERF401 - its length tells where it failed
    except ForeignValueError as error:
        error.path = (len(simple), *error.path)
        raise
    return simple


def _simplify_dict(value: dict[Any, Any], depth: int) -> Any:
    pairs = []
    for key, member in value.items():
        try:
            simple_key = _simplify(key, depth + 1)
        except ForeignValueError as error:
            raise ForeignValueError(f"{error.what} as a key") from None
        try:
            pairs.append((simple_key, _simplify(member, depth + 1)))
        except ForeignValueError as error:
            error.path = (key, *error.path)
            raise
    if all(type(key) is str for key, _ in pairs):
        return dict(pairs)
    return Ext(_EXTENSIONS[dict].code, _EXTENSIONS[dict].pack(pairs, depth))


def _simplify_subclass(value: object, depth: int) -> Any:
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    base = next((base for base in _BASES if isinstance(value, base)), None)
    if base is None:
        raise ForeignValueError(f"a {name}")
    plain = _BASES[base](value)
    if plain == value:
        return _simplify(plain, depth)
    raise ForeignValueError(f"a {name}, which differs from the {base.__name__} that it would be stored as")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pack_moment(value: datetime | time, _: int) -> bytes:
    """Store ISO 8601 text, the fold, and the name of the time zone if it has one."""
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    data = _encode([(value.replace(tzinfo=None) if zone else value).isoformat(), value.fold, zone])
    if value.tzinfo and not zone and _EXTENSIONS[type(value)].unpack(data) != value:
        raise ForeignValueError(
            f"a {type(value).__name__} in a {type(value.tzinfo).__name__}, which has no fixed offset"
        )
    return data


def _unpack_moment(kind: type[datetime] | type[time], data: Bytes) -> datetime | time:
    text, fold, zone = unpack(data)
    moment = kind.fromisoformat(text)
    return moment.replace(fold=fold, tzinfo=ZoneInfo(zone) if zone else moment.tzinfo)


class _Extension(NamedTuple):
    #: Stands in queues: never change one, only add.
    code: int
    pack: Callable[[Any, int], bytes]
    unpack: Callable[[Bytes], Any]


def _pack_items(values: Iterable[object], depth: int) -> bytes:
    return _encode(_items(values, depth))


_EXTENSIONS: dict[type, _Extension] = {
    int: _Extension(
        1,
        lambda value, _: value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True),
        lambda data: int.from_bytes(data, "big", signed=True),
    ),
    str: _Extension(
        2,
        lambda value, _: value.encode("utf-8", "surrogatepass"),
        lambda data: str(data, "utf-8", "surrogatepass"),
    ),
    bytearray: _Extension(3, lambda value, _: bytes(value), bytearray),
    tuple: _Extension(4, _pack_items, lambda data: tuple(unpack(data))),
    dict: _Extension(5, lambda pairs, _: _encode(pairs), lambda data: dict(unpack(data))),
    set: _Extension(6, _pack_items, lambda data: set(unpack(data))),
    frozenset: _Extension(7, _pack_items, lambda data: frozenset(unpack(data))),
    date: _Extension(
        8, lambda value, _: value.isoformat().encode(), lambda data: date.fromisoformat(str(data, "ascii"))
    ),
    time: _Extension(9, _pack_moment, lambda data: _unpack_moment(time, data)),
    datetime: _Extension(10, _pack_moment, lambda data: _unpack_moment(datetime, data)),
    timedelta: _Extension(
        11,
        lambda value, _: _encode([value.days, value.seconds, value.microseconds]),
        lambda data: timedelta(*unpack(data)),
    ),
    Decimal: _Extension(12, lambda value, _: str(value).encode(), lambda data: Decimal(str(data, "ascii"))),
    UUID: _Extension(13, lambda value, _: value.bytes, lambda data: UUID(bytes=bytes(data))),
}
_UNPACK = {extension.code: extension.unpack for extension in _EXTENSIONS.values()}

#: How an instance of a subclass becomes one of the type itself; a datetime is also a date, so it comes first.
_BASES: dict[type, Callable[[Any], Any]] = {
    **{kind: kind for kind in (int, float, bytes, bytearray, list, tuple, dict, set, frozenset, Decimal)},
    str: str.__str__,
    datetime: lambda value: datetime.combine(value.date(), value.timetz()),
    date: lambda value: date.fromordinal(value.toordinal()),
    time: lambda value: time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold),
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
    UUID: lambda value: UUID(int=value.int),
}
_NATIVE = frozenset({type(None), bool, float, bytes})


def _unpack_extension(code: int, data: memoryview) -> Any:
    if code not in _UNPACK:
        raise ValueError(f"data of type {code}, which this version does not know")
    return _UNPACK[code](data)


_decoder = msgspec.msgpack.Decoder(ext_hook=_unpack_extension)
