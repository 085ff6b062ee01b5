"""The Lua verbs: their texts, and how they are called by their hash."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files

#: The pieces that stand in front of a verb's own file.
PARTS = {
    "push": ("_session", "_lease", "_queue", "_limits", "_slices", "_dedup"),
    "pop": ("_session", "_lease", "_queue", "_limits", "_slices"),
    "complete": ("_session", "_lease", "_queue", "_limits"),
    "release": ("_session", "_lease", "_queue"),
    "open": ("_lease", "_queue", "_slices", "_dedup"),
    "extend": ("_lease",),
    "reclaim": ("_lease",),
    "finish": ("_slices", "_dedup"),
    "clear": ("_lease", "_queue", "_slices", "_dedup"),
    "unsee": ("_slices", "_dedup"),
    "revive": ("_lease", "_queue"),
    "status": (),
    "take": ("_lease",),
    "drop": (),
    "waiting": (),
    "oldest": ("_lease",),
    "bury": ("_lease",),
    "find": (),
    "unset": (),
    "mark": (),
}


def declared(keys: Sequence[str]) -> list[str]:
    """Return what a script is to declare: *keys*, and one that never exists.

    While a cluster moves a slot key by key, a node runs what declares no missing key. Keys that the script only names
    itself may have gone already: it would fail half way (seen: links noted as seen, and not queued). The missing key
    makes the node refuse the call, until the move is over.
    """
    return [*keys, f"{keys[-1]}:"]


@dataclass(frozen=True, slots=True)
class Verb:
    """Hold a script's text and the hash by which Redis knows it."""

    name: str
    text: str
    sha: str


@cache
def verb(name: str) -> Verb:
    """Return the verb *name*, with the pieces that it is built on."""
    folder = files(__package__)
    text = "\n".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in (*PARTS[name], name))
    return Verb(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())
