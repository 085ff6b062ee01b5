"""The stamp that some queued seeds carry in front, as long as they are queued: when they came (see _lease.lua)."""

_MARK = 4
_LENGTH = 12


def stamp_ms(queued: bytes) -> int | None:
    """Return when a queued seed came, in milliseconds of server time; None where it does not say."""
    return int(queued[1:_LENGTH], 16) if queued[:1] == bytes((_MARK,)) else None


def unstamped(queued: bytes) -> bytes:
    """Return a queued seed as it was put in."""
    return queued[_LENGTH:] if queued[:1] == bytes((_MARK,)) else queued
