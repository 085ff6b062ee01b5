"""The figures of a load test, over its window; its notes stand as annotations."""

from grafana.layout import Board, Row
from grafana.panels import SELECTED, About, Query, series, stat

_TOTALS = Row(
    "In this window",
    4,
    [
        stat(
            About("Pages", "Pages that reached a spider in the window.", "short"),
            f"sum(increase(crawler_pages_total{SELECTED}[$__range]))",
            curve=False,
        ),
        stat(
            About("Pages a second", "On average over the window.", "suffix:pages/s"),
            f"sum(rate(crawler_pages_total{SELECTED}[$__range]))",
            curve=False,
        ),
        stat(
            About("Pages a second a worker", "On average over the window.", "suffix:pages/s"),
            f"avg(sum by (instance) (rate(crawler_pages_total{SELECTED}[$__range])))",
            curve=False,
        ),
        stat(
            About("Most Redis memory", "At the peak of the window.", "bytes"),
            "max(max_over_time(redis_memory_used_bytes[$__range]))",
            curve=False,
        ),
        stat(
            About("CPU a page", "Seconds of a core that workers spent on a page.", "s"),
            'sum(rate(process_cpu_seconds_total{job="worker"}[$__range]))'
            f" / (sum(rate(crawler_pages_total{SELECTED}[$__range])) > 0)",
            curve=False,
        ),
    ],
)

_CURVES = Row(
    "Over time",
    9,
    [
        series(
            About("Pages by worker", "Flat is good; a fall at the end is the tail of the crawl.", "suffix:pages/s"),
            Query(f"sum by (instance) (rate(crawler_pages_total{SELECTED}[$__rate_interval]))", "{{instance}}"),
            stacked=True,
        ),
        series(
            About("What limited it", "The curve on top.", "percentunit"),
            Query(f"max by (limit) (spider:crawler_limit:ratio{SELECTED})", "{{limit}}"),
            largest=1,
        ),
        series(
            About("Links a second", "Looked up in the dedup.", "suffix:links/s"),
            Query(f"sum(rate(crawler_dedup_lookups_total{SELECTED}[$__rate_interval]))", "looked up"),
            Query(f"sum(rate(crawler_frontier_accepted_total{SELECTED}[$__rate_interval]))", "accepted"),
        ),
    ],
)

BOARD = Board("load-test", "Seedbed: load test", "What a load test did, over its window.", [_TOTALS, _CURVES])
