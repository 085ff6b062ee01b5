"""The parts of the benchmarks, a module each, in the order in which they run."""

from bench.frame import Part
from bench.parts import capacity, crawl, dedup, exporter, faults, frontier, scale, seeds, storage

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        crawl.PART,
        scale.PART,
        frontier.PART,
        seeds.PART,
        dedup.PART,
        storage.PART,
        exporter.PART,
        faults.PART,
        capacity.PART,
    )
}
