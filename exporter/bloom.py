"""What a Bloom filter's errors come to, from its shape and filling: RedisBloom's and the bitmaps' are alike."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Self

from crawler.frontier.status import Status

#: Steps of the integral over a layer's filling.
_STEPS = 32
#: Bits in one block of a bitmap, as `_dedup.lua` makes them.
BLOCK_BITS = 8 * (256 * 1024 - 16)
#: With a lifetime, so many filters share the capacity, and one more the error rate, as `_dedup.lua` makes them.
_SLICES = 4

#: What RedisBloom counts as a filter's size beside its bits.
_HEADER_BYTES = 32
_LAYER_HEADER_BYTES = 64


class Filter(NamedTuple):
    """Hold what a spider's frontier noted of its filter."""

    #: "bloom", "bitmap" or "exact".
    kind: str
    inserted: int
    #: Fingerprints planned for, and the share of new ones that may be taken for seen; 0 for an exact one.
    capacity: int
    error_rate: float
    #: With a lifetime: (number, fingerprints) of its slices, each a filter of its own, oldest first.
    slices: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, status: Status) -> Self | None:
        """Return the filter of a frontier; None when there is none yet."""
        kind, *settings = status.dedup.split() or [""]
        if not kind:
            return None
        limits = dict(setting.split("=", 1) for setting in settings)
        slices = tuple((int(number), int(held)) for number, held in (s.split("=") for s in status.slices.split()))
        return cls(kind, status.seen, int(limits.get("capacity", 0)), float(limits.get("error_rate", 0)), slices)

    @property
    def parts(self) -> "dict[int | None, Filter]":
        """Return the filters that it is made of, by the number of the slice; None: it has no slices."""
        if not self.slices:
            return {None: self}
        capacity, error_rate = math.ceil(self.capacity / _SLICES), self.error_rate / (_SLICES + 1)
        return {number: Filter(self.kind, held, capacity, error_rate) for number, held in self.slices}

    def as_found(self, inserted: int, capacity: int, size_bytes: int, layers: int) -> Self:
        """Return the filter that has this shape instead, which may be smaller than the noted one, but takes no less.

        Its layers are taken to double, and its error rate for that of which their size comes.
        """
        doublings = (1 << layers) - 1
        first = capacity / doublings
        # The bits of all layers are the sum of first * 2^i * (halvings + i) / ln 2.
        bits = 8 * (size_bytes - _HEADER_BYTES - layers * _LAYER_HEADER_BYTES)
        halvings = (bits * math.log(2) / first - sum(i << i for i in range(layers))) / doublings
        # Rounding up makes a filter look a little better than it is: one as noted remains as noted.
        error_rate = max(self.error_rate, min(1.0, 2 ** (1 - halvings)))
        return self._replace(inserted=inserted, capacity=max(1, round(first)), error_rate=error_rate)

    def layers(self) -> "Iterator[tuple[Layer, int]]":
        """Yield each layer and what it holds; each is twice the one before at half of its error."""
        left = self.inserted
        for number in range(64):
            halvings = number + 1 - math.log2(self.error_rate)
            layer = Layer(self.capacity << number, halvings / math.log(2), math.ceil(halvings))
            held = min(left, layer.capacity)
            yield layer, held
            left -= held
            if not left:
                return


class Layer(NamedTuple):
    """Hold the shape of one layer."""

    capacity: int
    bits_per_entry: float
    hashes: int

    @property
    def bits(self) -> int:
        """Return how many bits it has."""
        return math.ceil(self.capacity * self.bits_per_entry)

    @property
    def blocks(self) -> int:
        """Return how many blocks it takes as bitmaps."""
        return -(-self.bits // BLOCK_BITS)

    def error(self, held: float) -> float:
        """Return the share of new fingerprints that it takes for seen: (1 - e^(-kn/m))^k."""
        return float((-math.expm1(-self.hashes * held / self.bits)) ** self.hashes)

    def lost(self, held: int) -> float:
        """Return how many new fingerprints it is expected to have taken for seen while it filled."""
        step = held / _STEPS
        return sum(self.error((i + 0.5) * step) for i in range(_STEPS)) * step


class Cost(NamedTuple):
    """Hold what a filter's errors come to."""

    layers: int
    capacity: int
    size_bytes: int
    #: Share of new links that are taken for seen now.
    error_ratio: float
    #: Links that were, since the filter was new, by expectation.
    lost: float


@lru_cache(maxsize=10_000)
def cost(of: Filter) -> Cost:
    """Return what a filter costs; O(layers)."""
    capacity, bits, passed, lost = 0, 0, 1.0, 0.0
    layers = max(sum(1 for _ in part.layers()) for part in of.parts.values())
    for layer, held in (layer for part in of.parts.values() for layer in part.layers()):
        capacity += layer.capacity
        bits += layer.bits
        lost += layer.lost(held) + (1 - passed) * held
        passed *= 1 - layer.error(held)
    return Cost(layers, capacity, bits // 8, 1 - passed, lost)
