"""Everything in Redis that belongs to a spider: where its seeds are, its filter, its memory."""

from grafana.layout import Board, Row
from grafana.panels import IS_SELECTED, SELECTED, About, Column, Query, heatmap, series, stat, table


def _by_spider(metric: str) -> str:
    return f"sum by (spider) ({metric}{SELECTED})"


_BOOKS = Row(
    "The books",
    7,
    [
        table(
            About(
                "Where every accepted seed is",
                "accepted = queued + leased + done + dead + removed, from one atomic snapshot a spider.",
                "short",
            ),
            "spider",
            [
                Column("Accepted", "short", _by_spider("crawler_frontier_accepted_total")),
                Column("Queued", "short", _by_spider("crawler_frontier_queued")),
                Column("Leased", "short", _by_spider("crawler_frontier_leased")),
                Column("Done", "short", _by_spider("crawler_frontier_done_total")),
                Column("Dead", "short", _by_spider("crawler_frontier_dead")),
                Column("Removed", "short", _by_spider("crawler_frontier_removed_total")),
                Column("Crawls begun", "short", _by_spider("crawler_frontier_crawls_total")),
                Column("Paused", "bool_yes_no", _by_spider("crawler_frontier_paused")),
                Column("Complete", "bool_yes_no", _by_spider("crawler_frontier_complete")),
            ],
        ),
        stat(
            About(
                "Out of balance",
                "Accepted seeds that are in no place. Anything but 0 is a defect: seeds were lost, or are doubled.",
                "short",
                "BooksUnbalanced",
            ),
            f"max(abs(spider:crawler_frontier_unbalanced:sum{SELECTED}))",
        ),
    ],
    (19, 5),
)

_SEEDS = Row(
    "Seeds",
    8,
    [
        series(
            About("Queued by spider", "Seeds that wait.", "short"),
            Query(f"spider:crawler_frontier_queued:sum{SELECTED}"),
            stacked=True,
        ),
        series(
            About(
                "Queued by band",
                "high, normal, low: priority above, at and below 0 (low starves by design). host: its host must wait. "
                "suspect: its worker died, and it is run alone.",
                "short",
            ),
            Query(f"sum by (band) (crawler_frontier_queued{SELECTED})", "{{band}}"),
            stacked=True,
        ),
        series(
            About("In and out", "Seeds accepted and finished.", "suffix:seeds/s"),
            Query(
                f"sum by (spider) (rate(crawler_frontier_accepted_total{SELECTED}[$__rate_interval]))",
                "{{spider}} in",
            ),
            Query(f"sum by (spider) (rate(crawler_frontier_done_total{SELECTED}[$__rate_interval]))", "{{spider}} out"),
        ),
        series(
            About("Before the frontier", "Start URLs that producers wrote and no worker has taken in yet.", "short"),
            Query(f"sum by (key) (crawler_start_urls_waiting{SELECTED})", "{{key}}"),
            is_trouble=True,
        ),
        series(
            About("Leased", "Seeds in workers' hands. They come back when a worker dies.", "short"),
            Query(_by_spider("crawler_frontier_leased")),
        ),
    ],
)

_WAITING = Row(
    "Waiting",
    8,
    [
        heatmap(
            About(
                "Wait in the queue",
                "How long seeds were queued that workers took: a sample. Long is normal for a large crawl, and for low "
                " priorities; it grows while more comes in than goes out.",
                "s",
            ),
            f"sum by (le) (increase(crawler_queue_wait_seconds_bucket{SELECTED}[$__rate_interval]))",
        ),
        series(
            About(
                "Age of the oldest",
                "How long the seed has waited that is next in its priority, by band. Low priorities starve by design; "
                "high ones that grow old: no worker takes seeds, or the spider is paused.",
                "s",
            ),
            Query(
                f"time() - min by (spider, band) (crawler_frontier_oldest_seed_timestamp_seconds{SELECTED})",
                "{{spider}} {{band}}",
            ),
        ),
        series(
            About(
                "Full",
                "Queued and leased seeds against FRONTIER_MAX_SEEDS, where that is set. At 1 start URLs wait and pages "
                "go out singly, or the lowest seeds are dropped, as FRONTIER_FULL says.",
                "percentunit",
            ),
            Query(
                f"({_by_spider('crawler_frontier_queued')} + {_by_spider('crawler_frontier_leased')})"
                f" / on (spider) (crawler_frontier_seeds_limit{SELECTED} > 0)"
            ),
            largest=1,
            empty="no limit is set",
        ),
        series(
            About(
                "Pages of the crawl",
                "Seeds that the present crawl has handed out against FRONTIER_MAX_PAGES, if that is set. At 1 it ends.",
                "percentunit",
            ),
            Query(f"crawler_frontier_pages{SELECTED} / on (spider) (crawler_frontier_pages_limit{SELECTED} > 0)"),
            largest=1,
            empty="no limit is set",
        ),
    ],
)

_DEDUP = Row(
    "Dedup",
    8,
    [
        series(
            About(
                "Links that had been seen",
                "Share of looked-up links that were refused as seen. High is normal: navigation repeats on every page.",
                "percentunit",
            ),
            Query(f"spider:crawler_dedup_hits:ratio_rate5m{SELECTED}"),
            largest=1,
        ),
        series(
            About(
                "Filter filled",
                "Fingerprints noted against the room before the filter grows by a layer. Past 1 it has grown; plan "
                "DEDUP_CAPACITY larger for the next crawl.",
                "percentunit",
            ),
            Query(f"sum by (spider) (crawler_filter_inserted{SELECTED}) / on (spider) crawler_filter_capacity"),
            largest=1,
        ),
        series(
            About(
                "Error against its budget",
                "Estimated share of new links taken for seen, by what was configured.",
                "percentunit",
                "FilterOverBudget",
            ),
            Query(f"crawler_filter_estimated_error_ratio{SELECTED} / crawler_filter_configured_error_ratio{SELECTED}"),
        ),
        series(
            About(
                "Pages lost to false positives", "By expectation, since the filter was new: what Bloom costs.", "short"
            ),
            Query(f"crawler_filter_expected_lost{SELECTED}"),
        ),
    ],
)

_MEMORY = Row(
    "Memory",
    8,
    [
        series(
            About(
                "Memory by part", "What the frontiers' memory goes to: sampled, and up to some minutes old.", "bytes"
            ),
            Query(f"sum by (part) (crawler_frontier_memory_bytes{SELECTED})", "{{part}}"),
            stacked=True,
        ),
        series(
            About("Memory by spider", "All parts together. Clear the spiders that nobody needs any more.", "bytes"),
            Query(f"sum by (spider) (crawler_frontier_memory_bytes{SELECTED})"),
            stacked=True,
        ),
        series(
            About(
                "Bytes a queued seed",
                "About 30 for plain links, with what is noted of hosts; much more when requests carry meta or bodies.",
                "bytes",
            ),
            Query(
                f'sum by (spider) (crawler_frontier_memory_bytes{{{IS_SELECTED},part=~"queue|hosts"}}) / on (spider) '
                f"(spider:crawler_frontier_queued:sum{SELECTED} > 100)"
            ),
            empty="fewer than 100 are queued",
        ),
        series(
            About(
                "Bytes a seen link",
                "About 2 at the planned capacity; a filter that is nearly empty shows more.",
                "bytes",
            ),
            Query(
                f"sum by (spider) (crawler_filter_size_bytes{SELECTED}) / on (spider) "
                f"(sum by (spider) (crawler_filter_inserted{SELECTED}) > 100)"
            ),
            empty="fewer than 100 were seen",
        ),
    ],
)

BOARD = Board(
    "frontier",
    "Seedbed: frontier",
    "Where every seed is, how well the dedup works, and what it takes.",
    [_BOOKS, _SEEDS, _WAITING, _DEDUP, _MEMORY],
)
