"""What hypothesis draws plain data from, and how two such values are compared: by type, and NaN with NaN."""

from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

_zones = (
    st.none()
    | st.sampled_from([ZoneInfo("America/New_York"), ZoneInfo("UTC")])
    | st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
)
texts = st.text(st.characters(exclude_categories=()), max_size=12)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | texts
    | st.binary(max_size=12)
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times(timezones=_zones)
    | st.datetimes(timezones=_zones)
    | st.timedeltas()
)
hashable_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=5
)
plain_values = st.recursive(
    hashable_values | st.binary(max_size=5).map(bytearray) | st.sets(hashable_values, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(hashable_values, inner, max_size=3)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal and of the same types throughout, a NaN being equal to a NaN."""
    return _spelled(one) == _spelled(other)


def _spelled(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, dict):
        return f"{kind}{[_spelled(item) for item in value.items()]}"
    if isinstance(value, list | tuple):
        return f"{kind}{[_spelled(member) for member in value]}"
    if isinstance(value, set | frozenset):
        return f"{kind}{sorted(_spelled(member) for member in value)}"
    return f"{kind} {value!r}"
