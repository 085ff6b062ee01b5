"""Show how full each dedup filter is, and what it costs in pages."""

from collections.abc import Mapping
from typing import Any

from crawler.frontier.keys import Keys
from exporter import names
from exporter.bloom import Filter, cost
from exporter.exposition import Exposition
from exporter.frontier import Frontiers
from exporter.line import Question


class FilterCollector:
    """Show each spider's filter; one round trip where a filter is new or has grown."""

    name = "filters"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers
        # Spider -> the size that its filter should have, and the one that RedisBloom told then.
        self._sizes: dict[str, tuple[int, int]] = {}

    def collect(self, out: Exposition) -> None:
        """Reckon with what the frontiers noted, and ask RedisBloom for the size of its filters, where they stay."""
        statuses = self._frontiers.statuses
        filters = {spider: found for spider, status in statuses.items() if (found := Filter.of(status))}
        self._ask_sizes(filters)
        for spider, found in filters.items():
            out.add(names.FILTER_INSERTED, found.inserted, spider, found.kind)
            if found.capacity:
                now = cost(found)
                out.add(names.FILTER_CAPACITY, now.capacity, spider)
                out.add(names.FILTER_LAYERS, now.layers, spider)
                out.add(names.FILTER_BYTES, self._sizes.get(spider, (0, now.size_bytes))[1], spider)
                out.add(names.FILTER_CONFIGURED_ERROR, found.error_rate, spider)
                out.add(names.FILTER_ESTIMATED_ERROR, now.error_ratio, spider)
                out.add(names.FILTER_EXPECTED_LOST, now.lost, spider)

    def _ask_sizes(self, filters: Mapping[str, Filter]) -> None:
        """Learn the size of RedisBloom's filters: a filter is made for all that it will hold, and grows by layers."""
        planned = {
            spider: cost(found).size_bytes
            for spider, found in filters.items()
            if found.kind == "bloom" and not found.slices
        }
        due = [spider for spider, size in planned.items() if self._sizes.get(spider, (0, 0))[0] != size]
        infos = self._frontiers.line.ask([Question.of("BF.INFO", Keys(spider).seen) for spider in due])
        self._sizes = {spider: size for spider, size in self._sizes.items() if spider in planned}
        self._sizes |= {spider: (planned[spider], _size_of(info)) for spider, info in zip(due, infos, strict=True)}


def _size_of(info: Any) -> int:
    """Return the bytes that BF.INFO tells."""
    fields = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
    return int(fields[b"Size"])
