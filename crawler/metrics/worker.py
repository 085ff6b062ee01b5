"""Read, at each scrape, what the crawlers of this process know: Scrapy's statistics and the parts' own numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector
from scrapy.crawler import Crawler

from crawler.metrics import names
from crawler.metrics.names import LabelledStat, Reading, Stat
from crawler.versions import versions


@runtime_checkable
class Source(Protocol):
    """A scheduler or extension that has numbers of its own to show."""

    def readings(self) -> Mapping[Reading, float]:
        """Return its numbers now; called from another thread than the event loop's, so it only reads."""


@dataclass(eq=False)
class Watched:
    """One running crawler, and what its metrics are labelled with."""

    crawler: Crawler
    spider: str
    last_response_s: float = 0.0

    def readings(self) -> dict[Reading, float]:
        """Return the numbers of its downloader, scraper, scheduler and extensions, as far as they exist yet."""
        found: dict[Reading, float] = {names.LAST_RESPONSE: self.last_response_s}
        engine = self.crawler._engine
        if engine is None:
            return found
        found[names.IN_FLIGHT] = len(engine.downloader.active)
        found[names.CONCURRENCY_LIMIT] = engine.downloader.total_concurrency
        if slot := engine.scraper.slot:
            found[names.IN_SCRAPER] = len(slot.queue) + len(slot.active)
        for part in (engine.scheduler, *self.crawler.extensions.middlewares):
            if isinstance(part, Source):
                found |= part.readings()
        return found


class WorkerCollector(Collector):
    """Make the families of all crawlers that are watched, afresh at each scrape."""

    def __init__(self) -> None:
        self.watched: list[Watched] = []

    def collect(self) -> Iterator[Metric]:
        """Yield the families; O(statistics)."""
        watched = list(self.watched)
        # Copied at once, which the interpreter's lock makes one step: the crawl goes on changing them.
        stats = {w: w.crawler.stats.get_stats().copy() for w in watched}
        for stat in names.STATS:
            yield _family(stat, (((w.spider,), stats[w].get(stat.stat, 0)) for w in watched))
        for labelled in names.LABELLED_STATS:
            counts = {w.spider: _by_label(labelled, stats[w]) for w in watched}
            samples = (((spider, value), n) for spider in counts for value, n in counts[spider].items())
            yield _family(labelled, samples, labelled.label)
        readings = {w.spider: w.readings() for w in watched}
        for reading in dict.fromkeys(reading for found in readings.values() for reading in found):
            yield _family(reading, (((s,), found[reading]) for s, found in readings.items() if reading in found))
        yield InfoMetricFamily("crawler_build", "The versions that run here.", versions())


def _family(
    what: Stat | LabelledStat | Reading, samples: Iterable[tuple[Sequence[str], float]], *labels: str
) -> CounterMetricFamily | GaugeMetricFamily:
    is_gauge = isinstance(what, Reading) and not what.is_counter
    family = (GaugeMetricFamily if is_gauge else CounterMetricFamily)(what.name, what.help, labels=("spider", *labels))
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _by_label(labelled: LabelledStat, stats: Mapping[str, float]) -> Counter[str]:
    counts = Counter(dict.fromkeys(labelled.known, 0))
    for stat, number in stats.items():
        if stat.startswith(labelled.prefix):
            value = labelled.value_of(stat.removeprefix(labelled.prefix))
            if value is not None:
                counts[value] += int(number)
    return counts
