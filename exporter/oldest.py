"""Show how long the oldest queued seeds have waited, by the stamps that some of them carry."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crawler.frontier.keys import Keys
from crawler.frontier.stamp import stamp_ms
from exporter import names
from exporter.exposition import Exposition
from exporter.frontier import Frontiers, band_of
from exporter.line import Question, pairs
from exporter.names import Band
from exporter.rota import Rota

#: How long a sample stands, seconds; spiders that one scrape looks at, at most.
FRESH_S, SPIDERS_A_SCRAPE = 10.0, 20
#: Priorities of a spider that are looked at, so many of the highest and of the lowest; hosts with seeds set apart.
ENDS, HOSTS = 5, 10
#: Seeds at the head of each list that are looked at: one in 128 carries a stamp.
SEEDS = 256


class _List(NamedTuple):
    spider: str
    band: Band
    key: str


class OldestCollector:
    """Look at the heads of some spiders' queues at each scrape, and show what was seen last of all."""

    name = "oldest"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers
        self._rota: Rota[dict[Band, float]] = Rota(FRESH_S, SPIDERS_A_SCRAPE)

    def collect(self, out: Exposition) -> None:
        """Sample what is due, in two round trips."""
        for spider, came_s in self._rota.refresh(self._frontiers.statuses, self._sample).items():
            for band, since_s in came_s.items():
                out.add(names.OLDEST, since_s, spider, band)

    def _sample(self, spiders: Sequence[str]) -> dict[str, dict[Band, float]]:
        ask = self._frontiers.line.ask
        lists = [*self._inboxes(spiders), *self._host_lists(spiders)]
        heads = ask([Question.of("LRANGE", each.key, 0, SEEDS - 1) for each in lists])
        found: dict[str, dict[Band, float]] = {spider: {} for spider in spiders}
        for (spider, band, _), head in zip(lists, heads, strict=True):
            came_ms = next((ms for queued in head if (ms := stamp_ms(queued)) is not None), None)
            if came_ms is not None:
                found[spider][band] = min(found[spider].get(band, came_ms / 1000), came_ms / 1000)
        return found

    def _inboxes(self, spiders: Sequence[str]) -> Iterator[_List]:
        for spider in spiders:
            levels = sorted(self._frontiers.statuses[spider].inboxes)
            for level in {*levels[:ENDS], *levels[-ENDS:]}:
                yield _List(spider, band_of(level), Keys(spider).inbox(level))

    def _host_lists(self, spiders: Sequence[str]) -> Iterator[_List]:
        drawn = [Question.of("HRANDFIELD", Keys(spider).parked, HOSTS, "WITHVALUES") for spider in spiders]
        for spider, hosts in zip(spiders, self._frontiers.line.ask(drawn), strict=True):
            for host, levels in pairs(hosts):
                yield _List(
                    spider, "host", Keys(spider).host(int(levels.split(b",")[0]), host.decode(errors="replace"))
                )
