"""What decides whether a link is new: the settings of `_dedup.lua`, which does the work inside Redis."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, Self

from crawler.config import DedupSettings

#: To stand in front of a script that calls `admit` or `forget`; see there for the table that they take.
LUA = "\n".join((files(__package__) / f"_{part}.lua").read_text(encoding="ascii") for part in ("slices", "dedup"))


@dataclass(frozen=True, slots=True)
class Dedup:
    """Hold what a filter is made for; a filter made for something else is refused by the script, in words."""

    #: "bloom" takes the server's Bloom filter where it has one, else bitmaps.
    mode: Literal["bloom", "bitmap", "exact", "off"]
    #: Fingerprints planned for; past them the filter grows.
    capacity: int
    #: Share of new links that may be taken for seen.
    error_rate: float
    #: What was seen is forgotten after this time, and a quarter of it at most; 0: never.
    ttl_ms: int = 0

    @classmethod
    def of(cls, settings: DedupSettings) -> Self:
        """Return what *settings* ask for."""
        ttl_ms = int(settings.dedup_ttl_s * 1000)
        return cls(settings.dedup, settings.dedup_capacity, settings.dedup_error_rate, ttl_ms)

    @property
    def argv(self) -> tuple[str, str, str, str]:
        """Return mode, capacity, error rate and lifetime as arguments of a script."""
        return self.mode, str(self.capacity), repr(self.error_rate), str(self.ttl_ms)
