"""The stamp that some queued seeds carry in front, as long as they are queued: when they came (see _lease.lua)."""

import re

_match = re.compile(rb"\x04[0-9a-f]{11}").match


def unstamped(queued: bytes) -> bytes:
    """Return a queued seed as it was put in."""
    found = _match(queued)
    return queued[found.end() :] if found else queued
