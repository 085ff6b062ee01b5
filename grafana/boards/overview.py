"""The page for whoever is on call: is the crawl well, and what holds it back."""

from grafana.layout import Board, Row
from grafana.panels import IS_SELECTED, SELECTED, About, Query, bars, name, series, stat

_LIMITS = f"max by (limit) (spider:crawler_limit:ratio{SELECTED})"

_AT_A_GLANCE = Row(
    "At a glance",
    4,
    [
        stat(
            About(
                "Pages",
                "Pages that reached a spider. 0 while seeds wait: see what limits the crawl, below.",
                "suffix:pages/s",
            ),
            f"sum(rate(crawler_pages_total{SELECTED}[$__rate_interval]))",
        ),
        stat(
            About(
                "Failed requests",
                "Share of requests without a response, or whose response says that the server failed. When it is high, "
                "the panel on download errors tells why.",
                "percentunit",
                "ErrorRatioHigh",
            ),
            f"max(spider:crawler_failed_requests:ratio_rate5m{SELECTED})",
            decimals=1,
        ),
        stat(
            About("Queued", "Seeds that wait in the frontier. Growing is normal while a crawl is young.", "short"),
            f"sum(spider:crawler_frontier_queued:sum{SELECTED})",
        ),
        stat(
            About(
                "Time to drain",
                "How long until the queue is empty at the pace of the last minutes. Nothing while it grows.",
                "s",
            ),
            f"max(spider:crawler_frontier_drain:seconds{SELECTED})",
            empty="growing or empty",
            curve=False,
        ),
        stat(
            About("Workers", "Workers with a live heartbeat. Missing ones: see the Workers dashboard.", "short"),
            f"sum(spider:crawler_workers_alive:sum{SELECTED})",
        ),
        stat(
            About(
                "Filter filled",
                "The fullest dedup filter against the room it has before it grows. Growing costs memory, not pages.",
                "percentunit",
            ),
            f"max(sum by (spider) (crawler_filter_inserted{SELECTED}) / on (spider) crawler_filter_capacity{SELECTED})",
            decimals=0,
            empty="no filter",
        ),
        stat(
            About(
                "Redis memory",
                "Used share of Redis's memory. Full: workers wait. The Frontier dashboard shows what takes it.",
                "percentunit",
                "RedisRefusesWrites",
            ),
            "crawl:redis_memory_used:ratio",
            decimals=0,
            empty="no limit",
        ),
        stat(
            About("Firing alerts", "Alerts that fire now; each names a runbook in docs/runbooks.", "short", limit=0),
            'count(ALERTS{alertstate="firing",severity=~"page|ticket"}) or vector(0)',
            curve=False,
        ),
    ],
)

_LIMIT = Row(
    "What limits the crawl",
    8,
    [
        name(
            About(
                "The limit now",
                "The part that is nearest to its limit. downloads: more workers or concurrency would help. parsing: "
                "workers are busy, more would help. politeness: the sites' delays set the pace. redis, mongodb: "
                "see their dashboards. full queue: FRONTIER_MAX_SEEDS is reached. nothing left: the crawl is complete. "
                "paused: somebody paused it.",
                "percentunit",
            ),
            Query(f"topk(1, {_LIMITS})", "{{limit}}"),
            empty="no workers",
        ),
        bars(
            About(
                "How near each part is to its limit",
                "1 is at the limit. Downloads in flight against the allowed; a core's time used by a worker; queued "
                "seeds whose host must wait; time spent waiting for Redis; the buffer before MongoDB.",
                "percentunit",
            ),
            Query(f"sort_desc({_LIMITS})", "{{limit}}"),
            largest=1,
        ),
        series(
            About(
                "The limits over time",
                "As on the left. The curve on top is what held the crawl back then.",
                "percentunit",
            ),
            Query(_LIMITS, "{{limit}}"),
            largest=1,
        ),
    ],
    (5, 8, 11),
)

_DOWNLOADS = Row(
    "Downloads",
    8,
    [
        series(
            About(
                "Responses by status",
                "Before retries and redirects. 429 and 503 mean slower, 403 means not you: see RefusedRatioHigh.",
                "reqps",
            ),
            Query(f"sum by (code) (rate(crawler_responses_total{SELECTED}[$__rate_interval])) > 0", "{{code}}"),
            stacked=True,
        ),
        series(
            About(
                "Download errors",
                "Requests without a response, by reason. From one worker only: its network.",
                "reqps",
            ),
            Query(f"sum by (reason) (rate(crawler_download_errors_total{SELECTED}[$__rate_interval]))", "{{reason}}"),
            stacked=True,
            is_trouble=True,
        ),
        series(
            About(
                "Download latency",
                "Time from a request's start to its response's headers. Rising on all sites: network or CPU.",
                "s",
            ),
            *(
                Query(
                    f"histogram_quantile({quantile}, sum by (le) "
                    f"(rate(crawler_download_latency_seconds_bucket{SELECTED}[$__rate_interval])))",
                    label,
                )
                for quantile, label in ((0.5, "median"), (0.9, "90 %"), (0.99, "99 %"))
            ),
        ),
    ],
)

_FLOW = Row(
    "In and out",
    8,
    [
        series(
            About(
                "Seeds in and out",
                "Links accepted by the frontier, and pages finished. The queue grows while in is above out.",
                "suffix:seeds/s",
            ),
            Query(f"sum(rate(crawler_frontier_accepted_total{SELECTED}[$__rate_interval]))", "in"),
            Query(f"sum(rate(crawler_frontier_done_total{SELECTED}[$__rate_interval]))", "out"),
        ),
        series(
            About(
                "Queue",
                "Seeds that wait, by band: priority above, at or below 0; host: for its host's turn; suspect: its "
                "worker died, and it is run alone.",
                "short",
            ),
            Query(f"sum by (band) (crawler_frontier_queued{SELECTED})", "{{band}}"),
            Query(f"sum(crawler_frontier_leased{SELECTED})", "in workers' hands"),
            stacked=True,
        ),
        series(
            About(
                "Scraped and stored",
                "Items that passed the pipelines, and items that are durable in MongoDB. Stored lags by a batch; at 0 "
                "while items are scraped: ItemsNotStored.",
                "suffix:docs/s",
            ),
            Query(f"sum(rate(crawler_items_scraped_total{SELECTED}[$__rate_interval]))", "scraped"),
            Query(f"sum(rate(crawler_items_stored_total{SELECTED}[$__rate_interval]))", "stored"),
            Query(f"sum(rate(crawler_pages_stored_total{SELECTED}[$__rate_interval]))", "raw pages stored"),
        ),
    ],
)

_TROUBLE = Row(
    "Trouble",
    6,
    [
        series(
            About("Log messages", "Warnings and worse. The words are in `make logs`.", "suffix:lines/s"),
            Query(
                f'sum by (level) (rate(crawler_log_messages_total{{{IS_SELECTED},level=~"WARNING|ERROR|CRITICAL"}}'
                "[$__rate_interval]))",
                "{{level}}",
            ),
            stacked=True,
            is_trouble=True,
        ),
        series(
            About(
                "Spider exceptions",
                "Exceptions that left a callback: the page's later links and items are lost.",
                "suffix:pages/s",
            ),
            Query(f"sum by (spider) (rate(crawler_spider_exceptions_total{SELECTED}[$__rate_interval]))"),
            is_trouble=True,
        ),
        series(
            About(
                "Event-loop lag",
                "What 99 % of the event loop's timers are late by. Above a tenth of a second something blocks the "
                "loop: a long parse, or a blocking call.",
                "s",
            ),
            Query(
                "histogram_quantile(0.99, sum by (instance, le) "
                "(rate(crawler_event_loop_lag_seconds_bucket[$__rate_interval])))",
                "{{instance}}",
            ),
        ),
        series(
            About("Dead seeds", "Seeds set aside, each with its reason: see the runbook DeadSeeds.", "short"),
            Query(f"sum by (spider) (crawler_frontier_dead{SELECTED})"),
            is_trouble=True,
        ),
    ],
)

BOARD = Board(
    "overview",
    "Seedbed: overview",
    "Is the crawl well, and what holds it back? For whoever is on call.",
    [_AT_A_GLANCE, _LIMIT, _DOWNLOADS, _FLOW, _TROUBLE],
)
