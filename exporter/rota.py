"""Samples that are too dear to take of every spider at each scrape: some are taken anew, the others stand."""

import math
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Rota(Generic[T]):
    """Hold the last sample of each spider; one stands for *fresh_s*, and longer when more than *at_once* are due."""

    def __init__(self, fresh_s: float, at_once: int, clock: Callable[[], float] = monotonic) -> None:
        self._fresh_s = fresh_s
        self._at_once = at_once
        self._clock = clock
        self._samples: dict[str, tuple[float, T]] = {}

    def forget(self, spiders: Iterable[str]) -> None:
        """Drop the samples of spiders that have changed: they are due at once."""
        for spider in spiders:
            self._samples.pop(spider, None)

    def refresh(self, spiders: Iterable[str], sample: Callable[[list[str]], Mapping[str, T]]) -> dict[str, T]:
        """Have *sample* look at the spiders that are due, those first whose sample is oldest; return all samples."""
        now_s = self._clock()
        known = {spider: self._samples.get(spider) for spider in spiders}
        aged = sorted((found[0] if found else -math.inf, spider) for spider, found in known.items())
        due = [spider for sampled_s, spider in aged if now_s - sampled_s >= self._fresh_s][: self._at_once]
        self._samples = {spider: found for spider, found in known.items() if found}
        self._samples |= {spider: (now_s, found) for spider, found in sample(due).items()}
        return {spider: found for spider, (_, found) in self._samples.items()}
