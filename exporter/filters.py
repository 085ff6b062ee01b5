"""Show how full each dedup filter is, and what it costs in pages."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from redis.exceptions import ResponseError

from crawler.frontier.client import refusal
from crawler.frontier.keys import Keys
from exporter import names
from exporter.bloom import Filter, cost
from exporter.exposition import Exposition
from exporter.frontier import Frontiers
from exporter.line import Question
from exporter.rota import Rota

#: Filters that one scrape asks RedisBloom about at most, new ones first, then those asked about longest ago.
FILTERS_A_SCRAPE = 50


class Look(NamedTuple):
    """Hold what a frontier noted of its filter, and what RedisBloom then told of it."""

    noted: Filter
    found: Filter
    size_bytes: int

    @classmethod
    def of(cls, noted: Filter, info: Any) -> Self:
        """Return the look at a filter that brought *info* from BF.INFO."""
        told = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
        inserted, capacity, size_bytes, layers = (
            int(told[field]) for field in (b"Number of items inserted", b"Capacity", b"Size", b"Number of filters")
        )
        return cls(noted, noted.as_found(inserted, capacity, size_bytes, layers), size_bytes)

    def holds_for(self, noted: Filter) -> bool:
        """Tell whether the filter of which *noted* is noted now is still the one that was looked at."""
        same = noted._replace(inserted=0) == self.noted._replace(inserted=0) and noted.inserted >= self.noted.inserted
        return same and cost(self.grown(noted)).layers == cost(self.found).layers

    def grown(self, noted: Filter) -> Filter:
        """Return the filter with what was noted since."""
        return self.found._replace(inserted=self.found.inserted + noted.inserted - self.noted.inserted)


class FilterCollector:
    """Show each spider's filter; one round trip where any is RedisBloom's."""

    name = "filters"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers
        self._rota: Rota[Look] = Rota(fresh_s=0, at_once=FILTERS_A_SCRAPE)
        self._looks: Mapping[str, Look] = {}

    def collect(self, out: Exposition) -> None:
        """Reckon with what the frontiers noted, and with the shape that RedisBloom tells: it may have been changed."""
        statuses = self._frontiers.statuses
        filters = {spider: found for spider, status in statuses.items() if (found := Filter.of(status))}
        self._look(filters)
        for spider, noted in filters.items():
            out.add(names.FILTER_INSERTED, noted.inserted, spider, noted.kind)
            if noted.capacity:
                look = self._looks.get(spider)
                now = cost(look.grown(noted) if look else noted)
                out.add(names.FILTER_CAPACITY, now.capacity, spider)
                out.add(names.FILTER_LAYERS, now.layers, spider)
                out.add(names.FILTER_BYTES, look.size_bytes if look else now.size_bytes, spider)
                out.add(names.FILTER_CONFIGURED_ERROR, noted.error_rate, spider)
                out.add(names.FILTER_ESTIMATED_ERROR, now.error_ratio, spider)
                out.add(names.FILTER_EXPECTED_LOST, now.lost, spider)

    def _look(self, filters: Mapping[str, Filter]) -> None:
        """Look at some of RedisBloom's filters, where they are whole: a slice is not for long."""
        blooms = {spider: noted for spider, noted in filters.items() if noted.kind == "bloom" and not noted.slices}
        # Those that hold no longer are forgotten, and so are due before the others.
        holding = {
            spider for spider, look in self._looks.items() if spider in blooms and look.holds_for(blooms[spider])
        }
        self._rota.forget(self._looks.keys() - holding)
        self._looks = self._rota.refresh(blooms, lambda due: self._ask(due, blooms))

    def _ask(self, spiders: list[str], blooms: Mapping[str, Filter]) -> dict[str, Look]:
        line = self._frontiers.line
        infos = line.try_to_ask([Question.of("BF.INFO", Keys(spider).seen) for spider in spiders])
        looks = {}
        for spider, info in zip(spiders, infos, strict=True):
            if not isinstance(info, ResponseError):
                looks[spider] = Look.of(blooms[spider], info)
            elif "not found" not in str(info):  # it was forgotten since its frontier was read
                raise refusal(info, line.where)
        return looks
