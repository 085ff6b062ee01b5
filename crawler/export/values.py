"""Values of BSON as what the formats have: nothing is rounded, and what a format lacks becomes text.

Datetimes are ISO 8601 in UTC, with milliseconds and `Z`; decimals are their digits, as text; bytes are Base64; NaN and
the infinities, which JSON lacks, are text, too; so is whatever else BSON has (an ObjectId: its 24 digits).
"""

import base64
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from bson import Binary, Decimal128
from bson.binary import UUID_SUBTYPE

_encode = msgspec.json.Encoder().encode


def as_json(value: Any) -> Any:
    """Return what stands for a value in JSON. O(values in it)."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)  # BSON's own class for 64 bits is no int for the encoder
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Mapping):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    return _scalar_text(value)


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON, in UTF-8, on one line."""
    return _encode(as_json(value))


def as_text(value: Any) -> str | None:
    """Return what stands for a value in a table's cell: nested ones as JSON; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Mapping | list):
        return json_bytes(value).decode()
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal128):
        return str(value.to_decimal())
    if isinstance(value, Binary) and value.subtype == UUID_SUBTYPE:
        return str(UUID(bytes=bytes(value)))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
