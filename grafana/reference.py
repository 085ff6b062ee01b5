"""Write docs/metrics.md from the metrics' own names and help texts: `python -m grafana.reference`."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Histogram

from crawler.metrics import names as worker
from exporter import names as exporter
from exporter.exposition import Family

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

_TEXT = """\
# Metrics

Written by `python -m grafana.reference`; the same texts stand at `/metrics` as HELP.

Each **worker** tells of its own work (`METRICS_PORT`); Prometheus adds `instance`, and queries sum over workers. The
**exporter** (`EXPORTER_PORT`, 9410) tells of what all workers share and what must never be summed over them: the
frontier in Redis, the dedup filters, memory, the workers' heartbeats, MongoDB. redis_exporter tells of Redis itself.
`spider` is a spider's name, behind `FRONTIER_NAMESPACE/` where there is one. Both also serve the usual `process_` ones.

What waits is in `crawler_frontier_queued`; what workers hold is in `crawler_frontier_leased` (all of them, as Redis
sees it) and in `crawler_leases_held` (one of them, as it sees itself). A worker's counters end with it; those of the
frontier, which Redis keeps, go on.

## Worker

{worker}
## Exporter

{exporter}"""


class Row(NamedTuple):
    """Hold one metric's line."""

    name: str
    kind: str
    labels: Iterable[str]
    meaning: str


def render() -> str:
    """Return the page."""
    return _TEXT.format(worker=_table(_of_worker()), exporter=_table(_of_exporter()))


def _of_worker() -> Iterable[Row]:
    held = vars(worker).values()
    for stat in worker.STATS:
        yield Row(stat.name, "counter", ("spider",), stat.help)
    for labelled in worker.LABELLED_STATS:
        yield Row(labelled.name, "counter", ("spider", labelled.label), labelled.help)
    for of_host in worker.HOST_STATS:
        yield Row(of_host.name, "counter", ("spider", "host"), of_host.help)
    yield Row(worker.HOST_LATENCY.name, "summary", ("spider", "host"), worker.HOST_LATENCY.help)
    for reading in (*(each for each in held if isinstance(each, worker.Reading)), *worker.COUNTS.values()):
        yield Row(reading.name, "counter" if reading.is_counter else "gauge", ("spider",), reading.help)
    for histogram in (each for each in held if isinstance(each, Histogram)):
        [metric] = histogram.describe()
        yield Row(metric.name, metric.type, histogram._labelnames, metric.documentation)
    yield Row("crawler_build_info", "gauge", ("version", "scrapy", "python"), "The versions that run here.")


def _of_exporter() -> Iterable[Row]:
    for family in (each for each in vars(exporter).values() if isinstance(each, Family)):
        yield Row(family.name, family.kind, family.labels, family.help)


def _table(rows: Iterable[Row]) -> str:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.name}` | {row.kind} | {', '.join(row.labels)} | {row.meaning} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
