"""MongoDB: whether it keeps up, and what is stored."""

from grafana.layout import Board, Row
from grafana.panels import SELECTED, About, Query, heatmap, series, stat


def _rate(metric: str) -> str:
    return f"sum(rate({metric}{SELECTED}[$__rate_interval]))"


_STATE = Row(
    "State",
    4,
    [
        stat(About("MongoDB", "Whether it answers.", "bool_yes_no", "MongoDown"), "max(crawler_mongo_up)", curve=False),
        stat(
            About("Primary", "Whether it takes writes.", "bool_yes_no", "MongoNoPrimary"),
            "max(crawler_mongo_primary)",
            curve=False,
        ),
        stat(
            About("Disk used", "Of the file system that holds its data.", "percentunit", "DiskNearlyFull"),
            "crawl:mongo_filesystem_used:ratio",
        ),
        stat(
            About("Raw pages", "Documents in raw_pages: one a page, however often it was fetched.", "short"),
            'sum(crawler_mongo_documents{collection="raw_pages"})',
        ),
        stat(
            About("Rejects", "Documents that could not be stored, each with its reason.", "short", limit=0),
            'sum(crawler_mongo_documents{collection="rejects"}) or vector(0)',
        ),
        stat(
            About("Last backup", "How long ago `make backup` was through, if ever.", "s", "BackupTooOld"),
            "time() - max(crawler_backup_last_success_timestamp_seconds)",
        ),
    ],
)

_STORING = Row(
    "Storing",
    8,
    [
        series(
            About("Stored", "Documents that became durable, by all workers.", "suffix:docs/s"),
            Query(_rate("crawler_pages_stored_total"), "raw pages"),
            Query(_rate("crawler_items_stored_total"), "items"),
            Query(_rate("crawler_documents_rejected_total"), "rejected"),
            stacked=True,
        ),
        series(
            About("Buffered", "Documents in the workers that are not yet durable.", "short"),
            Query(f"sum(crawler_store_buffer_documents{SELECTED})", "documents"),
        ),
        series(
            About(
                "Tried again",
                "Batches that MongoDB did not take at first; the workers' log says why.",
                "suffix:batches/s",
            ),
            Query(_rate("crawler_store_errors_total"), "tried again"),
            is_trouble=True,
        ),
    ],
)

_SEEN_BY_WORKERS = Row(
    "As the workers see it",
    8,
    [
        heatmap(
            About(
                "Writing a batch",
                "Time until a batch is durable, however often it was tried. A band that rises: the disk, or the cache.",
                "s",
            ),
            f"sum by (le) (increase(crawler_store_flush_duration_seconds_bucket{SELECTED}[$__rate_interval]))",
        ),
        series(
            About(
                "Documents a batch",
                "On average. STORE_BATCH_DOCS or STORE_BATCH_BYTES when busy; few when pages come slowly.",
                "short",
            ),
            Query(
                f"{_rate('crawler_store_flush_documents_sum')} / ({_rate('crawler_store_flush_documents_count')} > 0)",
                "a batch",
            ),
        ),
        series(
            About("Commands", "What 99 % of the workers' commands take, by kind. Much more than inside: network.", "s"),
            Query(
                "histogram_quantile(0.99, sum by (operation, le) "
                "(rate(crawler_mongo_command_duration_seconds_bucket[$__rate_interval])))",
                "{{operation}}",
            ),
        ),
        series(
            About("Commands a second", "By kind: inserts of new documents, updates of known ones.", "ops"),
            Query(
                "sum by (operation) (rate(crawler_mongo_command_duration_seconds_count[$__rate_interval]))",
                "{{operation}}",
            ),
            stacked=True,
        ),
    ],
)

_SERVER = Row(
    "Server",
    8,
    [
        series(
            About("Operations", "Received, by kind.", "ops"),
            Query("sum by (operation) (rate(crawler_mongo_operations_total[$__rate_interval]))", "{{operation}}"),
            stacked=True,
        ),
        series(
            About("Time an operation takes", "Mean, inside the server.", "s"),
            Query(
                "sum by (kind) (rate(crawler_mongo_operation_duration_seconds_sum[$__rate_interval]))"
                " / (sum by (kind) (rate(crawler_mongo_operation_duration_seconds_count[$__rate_interval])) > 0)",
                "{{kind}}",
            ),
        ),
        series(
            About(
                "Cache",
                "WiredTiger's: what of the data lies in memory. Near the limit is normal for a large crawl.",
                "bytes",
            ),
            Query("max(crawler_mongo_cache_used_bytes)", "used"),
            Query("max(crawler_mongo_cache_dirty_bytes)", "dirty"),
            Query("max(crawler_mongo_cache_limit_bytes)", "limit"),
        ),
        series(
            About(
                "Dirty cache",
                "Share of the cache that is not yet on disk. From a fifth on, writes are made to wait for the disk.",
                "percentunit",
                limit=0.2,
            ),
            Query("max(crawler_mongo_cache_dirty_bytes) / max(crawler_mongo_cache_limit_bytes)", "dirty"),
        ),
        series(
            About("Connections and queues", "Open connections, and operations that wait for a place.", "short"),
            Query('sum(crawler_mongo_connections{state="current"})', "connections"),
            Query("sum by (kind) (crawler_mongo_queued_operations)", "waiting {{kind}}"),
        ),
    ],
)

_SIZES = Row(
    "Sizes",
    8,
    [
        series(
            About("Documents", "Documents that are stored, by collection.", "short", "CollectionLarge"),
            Query("sum by (collection) (crawler_mongo_documents)", "{{collection}}"),
        ),
        series(
            About("Data", "Documents before compression on disk.", "bytes"),
            Query("sum by (collection) (crawler_mongo_data_bytes)", "{{collection}}"),
            stacked=True,
        ),
        series(
            About("On disk", "Documents and indexes.", "bytes"),
            Query("sum by (collection) (crawler_mongo_storage_bytes)", "{{collection}}"),
            stacked=True,
        ),
    ],
)

BOARD = Board(
    "mongodb",
    "Seedbed: MongoDB",
    "Whether storing keeps up, and what is stored.",
    [_STATE, _STORING, _SEEN_BY_WORKERS, _SERVER, _SIZES],
)
