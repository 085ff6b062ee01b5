"""How the sites take it: which turn the crawler away, and how many must wait."""

from grafana.layout import Board, Row
from grafana.panels import IS_SELECTED, SELECTED, About, Query, series

_POLITENESS = Row(
    "Politeness",
    8,
    [
        series(
            About(
                "Hosts that wait",
                "Hosts whose next turn has not come, and those that an operator has blocked.",
                "short",
            ),
            Query(f"sum by (spider) (crawler_frontier_hosts_waiting{SELECTED})"),
        ),
        series(
            About(
                "Seeds that wait for their host",
                "Most of the queue: the sites' delays set the pace, not the workers.",
                "short",
            ),
            Query(f'sum by (spider) (crawler_frontier_queued{{{IS_SELECTED},band="host"}})'),
        ),
    ],
)

_ANSWERS = Row(
    "Answers",
    8,
    [
        series(
            About(
                "Refused",
                "Share of requests answered 403, 429 or 503. Slow down, before the addresses are banned for good.",
                "percentunit",
                "RefusedRatioHigh",
            ),
            Query(f"spider:crawler_refused_requests:ratio_rate5m{SELECTED}"),
        ),
        series(
            About("Retried", "Share of requests that are sent again.", "percentunit", "RetryRatioHigh"),
            Query(f"spider:crawler_retries:ratio_rate5m{SELECTED}"),
        ),
        series(
            About("Given up", "Requests whose last retry failed: pages that are missing from the crawl.", "reqps"),
            Query(f"sum by (spider) (rate(crawler_retries_exhausted_total{SELECTED}[$__rate_interval]))"),
        ),
    ],
)

BOARD = Board("hosts", "Seedbed: hosts", "How the sites take the crawl.", [_POLITENESS, _ANSWERS])
