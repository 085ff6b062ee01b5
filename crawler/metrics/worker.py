"""Read, at each scrape, what the crawlers of this process know: Scrapy's statistics and the parts' own numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from scrapy.crawler import Crawler

from crawler.config import Config
from crawler.metrics import names
from crawler.metrics.hosts import HostTallies
from crawler.metrics.names import HostStat, LabelledStat, Reading, Stat
from crawler.scheduler import Scheduler
from crawler.storage import Storage
from crawler.versions import versions


@dataclass(eq=False)
class Watched:
    """One running crawler, and what its metrics are labelled with."""

    crawler: Crawler
    config: Config
    spider: str
    last_response_s: float = 0.0
    hosts: HostTallies = field(default_factory=HostTallies)

    @property
    def storage(self) -> Storage | None:
        """Return what stores the crawler's pages, once there is one."""
        return self.crawler.get_extension(Storage) if self.crawler._extensions else None

    @property
    def scheduler(self) -> Scheduler | None:
        """Return the crawler's scheduler, once it is open, if it is this project's."""
        engine = self.crawler._engine
        scheduler = engine.scheduler if engine is not None else None
        return scheduler if isinstance(scheduler, Scheduler) and hasattr(scheduler, "conversation") else None

    def readings(self) -> dict[Reading, float]:
        """Return the numbers of its parts, as far as they exist yet.

        This runs beside the event loop's thread: it only looks at numbers and lengths.
        """
        found: dict[Reading, float] = {names.LAST_RESPONSE: self.last_response_s}
        if engine := self.crawler._engine:
            found[names.IN_FLIGHT] = len(engine.downloader.active)
            found[names.CONCURRENCY_LIMIT] = engine.downloader.total_concurrency
            if slot := engine.scraper.slot:
                found[names.IN_SCRAPER] = len(slot.queue) + len(slot.active)
        if scheduler := self.scheduler:
            talk = scheduler.conversation
            found[names.PREFETCHED] = talk.hand.size - talk.hand.room
            found[names.LEASES] = len(talk.hand.pages) + len(talk.hand.unsettled)
            found[names.OUTBOX] = len(talk.outbox)
            found[names.OUTBOX_LIMIT] = self.config.frontier_outbox
            found |= {reading: talk.counts[name] for name, reading in names.COUNTS.items()}
        if storage := self.storage:
            found[names.BUFFERED] = storage.buffered_documents
            found[names.BUFFERED_BYTES] = storage.buffered_bytes
            found[names.BUFFER_LIMIT] = self.config.store_buffer_bytes
            if spool := storage.spool:
                found[names.SPOOLED] = spool.documents
                found[names.SPOOLED_BYTES] = spool.size_bytes
                found[names.SPOOL_LIMIT] = spool.limit_bytes
                found[names.SPOOL_OLDEST] = spool.oldest_s
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
            counts = {w.spider: by_label(labelled, stats[w]) for w in watched}
            samples = (((spider, value), n) for spider in counts for value, n in counts[spider].items())
            yield _family(labelled, samples, labelled.label)
        hosts = [(w.spider, host, tally) for w in watched for host, tally in w.hosts]
        for of_host in names.HOST_STATS:
            counts_by_host = (((spider, host), getattr(tally, of_host.field)) for spider, host, tally in hosts)
            yield _family(of_host, counts_by_host, "host")
        latency = SummaryMetricFamily(names.HOST_LATENCY.name, names.HOST_LATENCY.help, labels=("spider", "host"))
        for spider, host, tally in hosts:
            latency.add_metric((spider, host), tally.responses, tally.latency_s)
        yield latency
        readings = {w.spider: w.readings() for w in watched}
        for reading in dict.fromkeys(reading for found in readings.values() for reading in found):
            yield _family(reading, (((s,), found[reading]) for s, found in readings.items() if reading in found))
        yield InfoMetricFamily("crawler_build", "The versions that run here.", versions())


def _family(
    what: Stat | LabelledStat | HostStat | Reading, samples: Iterable[tuple[Sequence[str], float]], *labels: str
) -> CounterMetricFamily | GaugeMetricFamily:
    is_gauge = isinstance(what, Reading) and not what.is_counter
    family = (GaugeMetricFamily if is_gauge else CounterMetricFamily)(what.name, what.help, labels=("spider", *labels))
    for values, number in samples:
        family.add_metric(values, number)
    return family


def by_label(labelled: LabelledStat, stats: Mapping[str, float]) -> Counter[str]:
    """Return what *stats* count under each label's value, known ones included."""
    counts = Counter(dict.fromkeys(labelled.known, 0))
    for stat, number in stats.items():
        if stat.startswith(labelled.prefix):
            value = labelled.value_of(stat.removeprefix(labelled.prefix))
            if value is not None:
                counts[value] += int(number)
    return counts
