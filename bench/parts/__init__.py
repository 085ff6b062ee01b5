"""The parts of the benchmarks, a module each, in the order in which they run."""

from bench.frame import Part
from bench.parts import crawl, frontier, seeds

PARTS: dict[str, Part] = {part.name: part for part in (crawl.PART, frontier.PART, seeds.PART)}
