"""How the sites take it: which turn the crawler away, and how many must wait."""

from grafana.layout import Board, Row
from grafana.panels import IS_SELECTED, SELECTED, About, Column, Query, series, table


def _rate(metric: str) -> str:
    return f"sum by (host) (rate({metric}{SELECTED}[$__rate_interval]))"


#: Of each worker's hosts those that matter most in all; the sum of the others is one of them.
_TOP = 21
_REQUESTS = _rate("crawler_host_requests_total")
_TROUBLED = f"({_rate('crawler_host_failed_total')} + {_rate('crawler_host_refused_total')})"


def _top(expr: str) -> str:
    return f"topk({_TOP}, {expr})"


_HOSTS = Row(
    "Hosts",
    11,
    [
        table(
            About(
                "Top 20",
                "The hosts with the most requests or trouble of late; all others as other. Refused: answered 403, 429 "
                "or 503; slow the host down (`scrapy frontier delay`) or block it. Failed: no response, or 5xx.",
                "short",
            ),
            "host",
            [
                Column("Requests", "reqps", _top(_REQUESTS)),
                Column("Failed", "percentunit", f"{_rate('crawler_host_failed_total')} / ({_REQUESTS} > 0)"),
                Column("Refused", "percentunit", f"{_rate('crawler_host_refused_total')} / ({_REQUESTS} > 0)"),
                Column(
                    "Latency",
                    "s",
                    f"{_rate('crawler_host_download_latency_seconds_sum')}"
                    f" / ({_rate('crawler_host_download_latency_seconds_count')} > 0)",
                ),
            ],
        ),
    ],
)

_BY_HOST = Row(
    "By host",
    8,
    [
        series(
            About(
                "Requests",
                "By host. One that takes most of the crawl's places makes all others wait: give it a delay.",
                "reqps",
            ),
            Query(_top(_REQUESTS), "{{host}}"),
            stacked=True,
        ),
        series(
            About(
                "Failed or refused",
                "Requests without a response, answered 5xx, 403 or 429, by host: which site is in trouble, or turns "
                "the crawler away.",
                "reqps",
            ),
            Query(_top(_TROUBLED), "{{host}}"),
            stacked=True,
        ),
        series(
            About(
                "Latency",
                "Mean time to a response's headers, by host. Rising on one: it is overloaded, perhaps by this crawl.",
                "s",
            ),
            Query(
                _top(
                    f"{_rate('crawler_host_download_latency_seconds_sum')}"
                    f" / ({_rate('crawler_host_download_latency_seconds_count')} > 0)"
                ),
                "{{host}}",
            ),
        ),
    ],
)

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
            About("Blocked hosts", "By an operator; their seeds are kept. `scrapy frontier unblock` ends it.", "short"),
            Query(f"sum by (spider) (crawler_frontier_hosts_blocked{SELECTED})"),
            is_trouble=True,
        ),
        series(
            About(
                "Hosts with seeds set apart",
                "Hosts whose seeds lie in lists of their own: they must wait, or a worker has enough of them.",
                "short",
            ),
            Query(f"sum by (spider) (crawler_frontier_hosts_set_apart{SELECTED})"),
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
            is_trouble=True,
        ),
    ],
)

BOARD = Board("hosts", "Seedbed: hosts", "How the sites take the crawl.", [_HOSTS, _BY_HOST, _POLITENESS, _ANSWERS])
