"""The names of all metrics of a worker: the only place that spells them (docs/metrics.md explains each).

Durations and sizes are measured where they arise, by whoever imports the histogram; what Scrapy's statistics or a
part's own counters hold already is only read, at each scrape, so that it costs a crawl nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics

from crawler.metrics.hosts import NAMED

# They double every series and say no more than process_start_time_seconds.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library's own omission

#: All metrics of this process, whichever crawler they come from.
REGISTRY = CollectorRegistry()

_FAST_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

DOWNLOAD_LATENCY = Histogram(
    "crawler_download_latency_seconds",
    "Time from the start of a request to the headers of its response; failures are in crawler_download_errors_total.",
    ["spider"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
    registry=REGISTRY,
)
EVENT_LOOP_LAG = Histogram(
    "crawler_event_loop_lag_seconds",
    "How much later than due a timer of the event loop fired, five times a second: what blocks the loop shows here.",
    buckets=(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
REDIS_COMMAND = Histogram(
    "crawler_redis_command_duration_seconds",
    "Time of one conversation with Redis, by kind; an exchange pushes links, acknowledges pages and takes seeds.",
    ["spider", "operation"],
    buckets=_FAST_S,
    registry=REGISTRY,
)
QUEUE_WAIT = Histogram(
    "crawler_queue_wait_seconds",
    "How long seeds were queued until a worker took them: of one in 128, and of the first into an empty queue.",
    ["spider"],
    buckets=(0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600),
    registry=REGISTRY,
)
MONGO_COMMAND = Histogram(
    "crawler_mongo_command_duration_seconds",
    "Time of one command to MongoDB as the worker sees it, failed ones included.",
    ["operation"],
    buckets=_FAST_S,
    registry=REGISTRY,
)
STORE_FLUSH = Histogram(
    "crawler_store_flush_duration_seconds",
    "Time until a batch was durable, in MongoDB or the spool, however often it was tried.",
    ["spider"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
    registry=REGISTRY,
)
STORE_FLUSH_SIZE = Histogram(
    "crawler_store_flush_documents",
    "Documents of a batch. Few when pages come slowly, or the crawl has nothing else to wait for.",
    ["spider"],
    buckets=(1, 5, 10, 25, 50, 100, 250, 500, 1000),
    registry=REGISTRY,
)


@dataclass(frozen=True)
class Stat:
    """A counter that Scrapy's statistics hold under one name."""

    name: str
    help: str
    stat: str


@dataclass(frozen=True)
class LabelledStat:
    """A counter that Scrapy's statistics hold under one name a value of *label*, all beginning with *prefix*."""

    name: str
    help: str
    label: str
    prefix: str
    #: Values that are there from the start, at 0.
    known: tuple[str, ...]
    #: What follows the prefix -> the label's value, or None for what does not count.
    value_of: Callable[[str], str | None] = str


@dataclass(frozen=True)
class HostStat:
    """A number that is kept by host, in one field of a `hosts.Tally`."""

    name: str
    help: str
    field: str


@dataclass(frozen=True)
class Reading:
    """A number that some part of the worker holds; `worker.py` says which."""

    name: str
    help: str
    is_counter: bool = False


_REASONS = {
    "timeout": ("DownloadTimeoutError", "TimeoutError", "TCPTimedOutError"),
    "dns": ("CannotResolveHostError", "DNSLookupError"),
    "refused": ("DownloadConnectionRefusedError", "ConnectionRefusedError"),
    "connection": (
        "DownloadFailedError",
        "ConnectError",
        "ConnectionDone",
        "ConnectionLost",
        "ResponseFailed",
        "ResponseNeverReceived",
    ),
    "incomplete": ("ResponseDataLossError",),
    "cancelled": ("DownloadCancelledError",),
    "proxy": ("TunnelError",),
    "scheme": ("UnsupportedURLSchemeError", "NotSupported"),
    "other": (),
}
_REASON_OF = {exception: reason for reason, exceptions in _REASONS.items() for exception in exceptions}


def reason_of(exception: str) -> str | None:
    """Return the reason that stands for the exception of this dotted name; None if it is no failure (robots.txt)."""
    name = exception.rpartition(".")[2]
    return None if name == "IgnoreRequest" else _REASON_OF.get(name, "other")


def code_of(status: str) -> str:
    """Return the label for a status: itself when HTTP has such a code, so that no server can make up series."""
    return status if status.isdecimal() and 100 <= int(status) <= 599 else "other"


STATS = (
    Stat(
        "crawler_requests_total",
        "Requests given to the downloader, retries and redirects included.",
        "downloader/request_count",
    ),
    Stat(
        "crawler_pages_total",
        "Responses that were kept: retries and redirects are not among them, the few of robots.txt are.",
        "response_received_count",
    ),
    Stat(
        "crawler_response_bytes_total",
        "Bytes of responses, headers included, as they came over the line.",
        "downloader/response_bytes",
    ),
    Stat("crawler_retries_total", "Requests that were sent again.", "retry/count"),
    Stat("crawler_retries_exhausted_total", "Requests given up after their last retry.", "retry/max_reached"),
    Stat("crawler_items_scraped_total", "Items that passed all pipelines.", "item_scraped_count"),
    Stat("crawler_items_dropped_total", "Items that a pipeline dropped.", "item_dropped_count"),
    Stat("crawler_spider_exceptions_total", "Exceptions that left a spider's callback.", "spider_exceptions/count"),
    Stat("crawler_pages_stored_total", "Raw pages that became durable in MongoDB.", "storage/pages_stored"),
    Stat(
        "crawler_pages_not_modified_total",
        "Pages that their host said had not changed, and that were taken from MongoDB (CRAWL_CONDITIONAL).",
        "storage/not_modified",
    ),
    Stat("crawler_items_stored_total", "Items that became durable in MongoDB.", "storage/items_stored"),
    Stat(
        "crawler_documents_rejected_total",
        "Pages and items that can't be stored for what they are; the collection of rejects holds why.",
        "storage/rejected",
    ),
    Stat(
        "crawler_store_errors_total", "Batches that MongoDB did not take, and that were tried again.", "storage/retries"
    ),
    Stat(
        "crawler_spooled_documents_total",
        "Documents that became durable in the spool, not in MongoDB.",
        "storage/spooled",
    ),
    Stat("crawler_replayed_documents_total", "Documents that MongoDB got from the spool.", "storage/replayed"),
    Stat(
        "crawler_items_listed_total", "Items that got into a list in Redis (ITEMS_TO_REDIS).", "items_to_redis/pushed"
    ),
)
LABELLED_STATS = (
    LabelledStat(
        "crawler_responses_total",
        "Responses by status code, before retries and redirects take theirs out.",
        "code",
        "downloader/response_status_count/",
        ("200", "301", "302", "304", "403", "404", "429", "500", "502", "503", "504"),
        code_of,
    ),
    LabelledStat(
        "crawler_download_errors_total",
        "Requests that ended without a response, by reason.",
        "reason",
        "downloader/exception_type_count/",
        tuple(_REASONS),
        reason_of,
    ),
    LabelledStat(
        "crawler_log_messages_total",
        "Log messages by level.",
        "level",
        "log_count/",
        ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    ),
)

_WHICH_HOSTS = (
    f"The {NAMED} hosts with the most requests of late, a failed or refused one counting tenfold, by name; the rest as "
    "other. Each worker names its own. Of use as a rate: a host that loses its name takes its total along."
)
HOST_STATS = (
    HostStat("crawler_host_requests_total", f"Requests by host. {_WHICH_HOSTS}", "requests"),
    HostStat("crawler_host_failed_total", "Requests by host without a response, or answered 5xx.", "failed"),
    HostStat("crawler_host_refused_total", "Requests by host answered 403, 429 or 503.", "refused"),
)
HOST_LATENCY = HostStat(
    "crawler_host_download_latency_seconds",
    "Time from the start of a request to the headers of its response, by host.",
    "latency_s",
)

IN_FLIGHT = Reading("crawler_requests_in_flight", "Requests that the downloader has in hand.")
CONCURRENCY_LIMIT = Reading("crawler_concurrency_limit", "Requests that the downloader may have in hand at once.")
IN_SCRAPER = Reading("crawler_responses_in_scraper", "Responses that wait for their callback, or are in it.")
LAST_RESPONSE = Reading("crawler_last_response_timestamp_seconds", "When the latest response came; 0 before the first.")

PREFETCHED = Reading("crawler_prefetched_seeds", "Leased seeds that wait in the worker for their download.")
LEASES = Reading("crawler_leases_held", "Seeds that the worker holds: waiting, downloading, or not yet acknowledged.")
OUTBOX = Reading("crawler_outbox_entries", "Links and acknowledgements that wait to be sent to Redis.")
OUTBOX_LIMIT = Reading("crawler_outbox_limit", "Entries in the outbox at which the worker takes no more seeds.")
BUFFERED = Reading("crawler_store_buffer_documents", "Documents that are not yet durable, in MongoDB or the spool.")
BUFFERED_BYTES = Reading("crawler_store_buffer_bytes", "Memory of the documents that are not yet durable.")
BUFFER_LIMIT = Reading("crawler_store_buffer_limit_bytes", "Buffered bytes at which the worker takes no more seeds.")
SPOOLED = Reading("crawler_spool_documents", "Documents that wait on the worker's disk for MongoDB.")
SPOOLED_BYTES = Reading("crawler_spool_bytes", "Their bytes.")
SPOOL_LIMIT = Reading("crawler_spool_limit_bytes", "Bytes that the worker keeps on its disk at most.")
SPOOL_OLDEST = Reading(
    "crawler_spool_oldest_timestamp_seconds", "Since when the oldest document waits there; 0: none does."
)

#: What the scheduler counted under one name.
COUNTS = {
    "lookups": Reading("crawler_dedup_lookups_total", "Links that were checked for having been seen.", is_counter=True),
    "hits": Reading("crawler_dedup_hits_total", "Links that had been seen, or so the filter said.", is_counter=True),
    "refused": Reading("crawler_requests_refused_total", "Requests that hold what is no data.", is_counter=True),
    "bad": Reading("crawler_seeds_unreadable_total", "Seeds that can't be read back as requests.", is_counter=True),
    "stale": Reading("crawler_leases_stale_total", "Pages finished after their lease was lost.", is_counter=True),
    "reopened": Reading(
        "crawler_sessions_reopened_total",
        "Times that the lease was lost, or Redis lost its last moments.",
        is_counter=True,
    ),
}
