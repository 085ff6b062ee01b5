"""Show how long the oldest queued seeds have waited, by the stamps that some of them carry."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crawler.frontier.calls import oldest_call
from crawler.frontier.keys import Keys
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
#: Seeds at the head of each list that are looked at, at most: one in 128 carries a stamp.
SEEDS = 256
#: Bytes of seeds that Redis looks at for one scrape, shared by the lists: it takes up to 10 ms to unpack a megabyte of
#: them, and answers nobody else meanwhile. Only stamps are sent. For 400 lists it does for 200 seeds of 100 bytes.
LOOKED_AT_BYTES = 8_000_000


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
        lists = [*self._inboxes(spiders), *self._host_lists(spiders)]
        share_bytes = LOOKED_AT_BYTES // max(len(lists), 1)
        answers = self._frontiers.line.run([oldest_call(each.key, SEEDS, share_bytes) for each in lists])
        found: dict[str, dict[Band, float]] = {spider: {} for spider in spiders}
        for (spider, band, _), came_ms in zip(lists, answers, strict=True):
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
