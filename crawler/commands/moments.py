"""Points in time as a person writes them: `30d` (ago), `2026-11-30`, `2026-11-30T12:00Z`."""

import re
from datetime import UTC, datetime, timedelta

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime) -> datetime:
    """Return the point in time that *text* names: a span before *now*, or a date in ISO 8601 (without a zone: UTC).

    Raises ValueError, which says what is wanted.
    """
    try:
        if span := _SPAN.fullmatch(text):
            return now - timedelta(**{_UNITS[span[2]]: float(span[1])})
        named = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no point in time: a span of the past (30d, 12h, 90m) or a date (2026-11-30, "
            "2026-11-30T12:00Z) is wanted"
        ) from None
    return named.replace(tzinfo=UTC) if named.tzinfo is None else named.astimezone(UTC)
