"""Show how full each dedup filter is, and what it costs in pages."""

from typing import Any

from crawler.frontier.keys import Keys
from exporter import names
from exporter.bloom import Filter, cost
from exporter.exposition import Exposition
from exporter.frontier import Frontiers
from exporter.line import Question


class FilterCollector:
    """Show each spider's filter; one round trip."""

    name = "filters"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers

    def collect(self, out: Exposition) -> None:
        """Reckon with what the frontiers noted, and ask RedisBloom for the size of its filters, where they stay."""
        statuses = self._frontiers.statuses
        filters = {spider: found for spider, status in statuses.items() if (found := Filter.of(status))}
        bloom = [spider for spider, found in filters.items() if found.kind == "bloom" and not found.slices]
        infos = self._frontiers.line.ask([Question.of("BF.INFO", Keys(spider).seen) for spider in bloom])
        sizes = {spider: _size_of(info) for spider, info in zip(bloom, infos, strict=True)}
        for spider, found in filters.items():
            out.add(names.FILTER_INSERTED, found.inserted, spider, found.kind)
            if found.capacity:
                now = cost(found)
                out.add(names.FILTER_CAPACITY, now.capacity, spider)
                out.add(names.FILTER_LAYERS, now.layers, spider)
                out.add(names.FILTER_BYTES, sizes.get(spider, now.size_bytes), spider)
                out.add(names.FILTER_CONFIGURED_ERROR, found.error_rate, spider)
                out.add(names.FILTER_ESTIMATED_ERROR, now.error_ratio, spider)
                out.add(names.FILTER_EXPECTED_LOST, now.lost, spider)


def _size_of(info: Any) -> int:
    """Return the bytes that BF.INFO tells."""
    fields = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
    return int(fields[b"Size"])
