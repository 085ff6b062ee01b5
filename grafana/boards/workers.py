"""Each worker by itself: what it does, and what it holds."""

from grafana.layout import Board, Row
from grafana.panels import SELECTED, About, Column, Query, series, table


def _by_instance(metric: str) -> str:
    return f"sum by (instance) ({metric}{SELECTED})"


def _share(metric: str, limit: str) -> str:
    return f"{_by_instance(metric)} / ({_by_instance(limit)} > 0)"


def _rate(metric: str) -> str:
    return f"sum by (instance) (rate({metric}{SELECTED}[$__rate_interval]))"


_LAG = "histogram_quantile({}, sum by (instance, le) (rate(crawler_event_loop_lag_seconds_bucket[$__rate_interval])))"

_TABLE = Row(
    "All workers",
    9,
    [
        table(
            About(
                "Workers", "Uneven pages: a slow host or a slow machine. Lag: something blocks the event loop.", "short"
            ),
            "instance",
            [
                Column("Pages", "suffix:pages/s", _rate("crawler_pages_total")),
                Column("In flight", "short", _by_instance("crawler_requests_in_flight")),
                Column("Leases", "short", _by_instance("crawler_leases_held")),
                Column("Outbox", "short", _by_instance("crawler_outbox_entries")),
                Column("Buffered", "bytes", _by_instance("crawler_store_buffer_bytes")),
                Column("Spooled", "bytes", _by_instance("crawler_spool_bytes")),
                Column("CPU", "percentunit", 'rate(process_cpu_seconds_total{job="worker"}[$__rate_interval])'),
                Column("Memory", "bytes", 'process_resident_memory_bytes{job="worker"}'),
                Column("Loop lag, 99 %", "s", _LAG.format(0.99)),
                Column(
                    "Since last page",
                    "s",
                    f"time() - max by (instance) (crawler_last_response_timestamp_seconds{SELECTED})",
                ),
            ],
        ),
    ],
)

_LIVES = Row(
    "Coming and going",
    7,
    [
        series(
            About(
                "Workers by state",
                "From their heartbeats. idle: nothing to do. lost: silent for longer than its lease.",
                "short",
            ),
            Query(f"sum by (state) (crawler_workers{SELECTED})", "{{state}}"),
            stacked=True,
        ),
        series(
            About("Workers lost", "Workers that died or froze; see the runbook WorkerLost.", "short"),
            Query(f"sum by (spider) (increase(crawler_workers_lost_total{SELECTED}[10m]))"),
            is_trouble=True,
        ),
        series(
            About(
                "Not idle yet",
                "Workers that may still give start requests: known of each when it has nothing else to do for the "
                "first time. A crawl is not complete before.",
                "short",
            ),
            Query(f"sum by (spider) (crawler_workers_starting{SELECTED})"),
        ),
    ],
)

_WORK = Row(
    "Work",
    8,
    [
        series(
            About("Pages by worker", "Even, unless hosts are few or machines differ.", "suffix:pages/s"),
            Query(_rate("crawler_pages_total"), "{{instance}}"),
            stacked=True,
        ),
        series(
            About("In flight", "Downloads under way. At the limit: more concurrency or more workers.", "short"),
            Query(_by_instance("crawler_requests_in_flight"), "{{instance}}"),
            Query(f"max(crawler_concurrency_limit{SELECTED})", "limit of one worker"),
        ),
        series(
            About(
                "In the scraper",
                "Responses that wait for their callback or are in it. Rising: parsing is the limit.",
                "short",
            ),
            Query(_by_instance("crawler_responses_in_scraper"), "{{instance}}"),
        ),
        series(
            About("Bytes received", "Responses as they came over the line.", "Bps"),
            Query(_rate("crawler_response_bytes_total"), "{{instance}}"),
            stacked=True,
        ),
    ],
)

_HEALTH = Row(
    "Health",
    8,
    [
        series(
            About("Event-loop lag, 99 %", "Above a tenth of a second something blocks the loop.", "s"),
            Query(_LAG.format(0.99), "{{instance}}"),
        ),
        series(
            About("CPU", "Of one core: a worker can't use more. At 1: more workers.", "percentunit"),
            Query('rate(process_cpu_seconds_total{job="worker"}[$__rate_interval])', "{{instance}}"),
        ),
        series(
            About("Memory", "Resident. At the container's limit the worker is killed; see WorkerLost.", "bytes"),
            Query('process_resident_memory_bytes{job="worker"}', "{{instance}}"),
        ),
    ],
)

_HELD = Row(
    "What workers hold",
    8,
    [
        series(
            About(
                "Prefetched",
                "Leased seeds that wait for their download. 0 while seeds are queued: Redis is slow.",
                "short",
            ),
            Query(_by_instance("crawler_prefetched_seeds"), "{{instance}}"),
        ),
        series(
            About(
                "Outbox",
                "Links and acknowledgements not yet sent, against the limit. At 1 the worker takes no seeds: Redis.",
                "percentunit",
            ),
            Query(_share("crawler_outbox_entries", "crawler_outbox_limit"), "{{instance}}"),
        ),
        series(
            About(
                "Buffer before MongoDB",
                "Documents not yet durable, against the limit. At 1 the worker takes no seeds.",
                "percentunit",
            ),
            Query(_share("crawler_store_buffer_bytes", "crawler_store_buffer_limit_bytes"), "{{instance}}"),
        ),
        series(
            About(
                "Spool on disk",
                "Documents that wait for a MongoDB that is away, against STORE_SPOOL_BYTES. At 1 they wait in the "
                "buffer.",
                "percentunit",
                "SpoolNearlyFull",
            ),
            Query(_share("crawler_spool_bytes", "crawler_spool_limit_bytes"), "{{instance}}"),
        ),
    ],
)

BOARD = Board(
    "workers",
    "Seedbed: workers",
    "Each worker by itself: what it does, how it feels, what it holds.",
    [_TABLE, _LIVES, _WORK, _HEALTH, _HELD],
)
