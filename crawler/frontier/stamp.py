"""The stamp that some queued seeds carry in front, as long as they are queued: when they came (see _lease.lua)."""

import re

_match = re.compile(rb"\x04([0-9a-f]{11})").match


def stamp_ms(queued: bytes) -> int | None:
    """Return when a queued seed came, in milliseconds of server time; None where it does not say."""
    found = _match(queued)
    return int(found[1], 16) if found else None


def unstamped(queued: bytes) -> bytes:
    """Return a queued seed as it was put in."""
    found = _match(queued)
    return queued[found.end() :] if found else queued
