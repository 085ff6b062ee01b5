"""Values on their way into a script: MessagePack as Redis's Lua reads it, with raw strings and no `bin` type."""

from msgspec import Raw
from msgspec.msgpack import Encoder

pack = Encoder().encode


def raw(data: bytes) -> Raw:
    """Return *data* as a raw string (the `str` family of MessagePack), whatever its bytes are."""
    size = len(data)
    if size < 32:
        return Raw(bytes((0xA0 | size,)) + data)
    if size < 1 << 8:
        return Raw(b"\xd9" + bytes((size,)) + data)
    if size < 1 << 16:
        return Raw(b"\xda" + size.to_bytes(2, "big") + data)
    return Raw(b"\xdb" + size.to_bytes(4, "big") + data)
