"""The names of all metrics of the exporter: the only place that spells them (docs/metrics.md explains each)."""

from typing import Literal

from exporter.exposition import Family


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(f"crawler_{name}", "gauge", text, labels)


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(f"crawler_{name}_total", "counter", text, labels)


BUILD = _gauge("exporter_build_info", "The versions that run here.", "version", "scrapy", "python")
COLLECTOR_SUCCESS = _gauge("collector_success", "Whether this part of the scrape worked.", "collector")
COLLECTOR_DURATION = _gauge("collector_duration_seconds", "How long this part of the scrape took.", "collector")

REDIS_UP = _gauge("redis_up", "Whether the frontier's Redis answered.")

#: Where a queued seed waits: by the sign of its priority, for its host's turn, or to be run alone.
Band = Literal["high", "normal", "low", "host", "suspect"]

ACCEPTED = _counter("frontier_accepted", "Seeds that the frontier took in.", "spider")
QUEUED = _gauge(
    "frontier_queued",
    "Seeds in the queue, by band: priority above, at or below 0; host: its host must wait; suspect: its worker died.",
    "spider",
    "band",
)
LEASED = _gauge("frontier_leased", "Seeds in the hands of workers.", "spider")
DONE = _counter("frontier_done", "Seeds acknowledged: fetched, parsed, and what came of them stored.", "spider")
DEAD = _gauge("frontier_dead", "Seeds set aside with their reason, until an operator retries or drops them.", "spider")
REMOVED = _counter("frontier_removed", "Seeds dropped by an operator or a policy.", "spider")
PAGES = _gauge("frontier_pages", "Seeds that the present crawl has handed out: FRONTIER_MAX_PAGES ends it.", "spider")
PAGES_LIMIT = _gauge("frontier_pages_limit", "Seeds that a crawl hands out at most; 0: any number.", "spider")
SEEDS_LIMIT = _gauge("frontier_seeds_limit", "Seeds that may be queued or in hand; 0: any number.", "spider")
FULL = _gauge(
    "frontier_full", "Whether as many seeds are queued or in hand as FRONTIER_MAX_SEEDS lets there be.", "spider"
)
FILTERED = _counter("frontier_filtered", "Links refused because they had been seen, or so the filter said.", "spider")
HOSTS = _gauge("frontier_hosts_waiting", "Hosts that must wait for their turn, blocked ones included.", "spider")
HOSTS_BLOCKED = _gauge("frontier_hosts_blocked", "Hosts that an operator has blocked.", "spider")
HOSTS_APART = _gauge(
    "frontier_hosts_set_apart", "Hosts with seeds in lists of their own, as they must wait or had enough.", "spider"
)
CRAWLS = _counter("frontier_crawls", "Crawls begun on this frontier.", "spider")
PAUSED = _gauge("frontier_paused", "Whether an operator has paused the spider for all workers.", "spider")
COMPLETE = _gauge(
    "frontier_complete", "Whether nothing is queued, leased or about to be: tells complete from stalled.", "spider"
)

OLDEST = _gauge(
    "frontier_oldest_seed_timestamp_seconds",
    "When the seed came that is next in its priority, or one of the 256 behind it (fewer where seeds are large), by "
    "band; host: of ten hosts drawn by lot. Sampled, and kept for 10 s or longer among many spiders. No series: none "
    "is there that says when it came.",
    "spider",
    "band",
)

START_URLS = _gauge(
    "start_urls_waiting", "Entries that producers wrote and no worker has taken in, by key.", "spider", "key"
)

#: What a worker does: "lost" has not been heard of for a lease's time, and its seeds are about to go back.
WorkerState = Literal["working", "idle", "lost"]

WORKERS = _gauge("workers", "Workers by state; lost: silent for longer than its lease.", "spider", "state")
STARTING = _gauge("workers_starting", "Workers whose spider still gives start requests.", "spider")
WORKERS_LOST = _counter("workers_lost", "Workers that died or froze, and whose seeds were taken back.", "spider")
WORKER_LEASES = _gauge("worker_leases", "Seeds in the hands of one worker.", "spider", "worker")
WORKER_LEASE_EXPIRY = _gauge(
    "worker_lease_expiry_timestamp_seconds",
    "Until when a worker's leases hold; each of its heartbeats puts it off. Forgotten when its seeds have gone back.",
    "spider",
    "worker",
)

FILTER_INSERTED = _gauge("filter_inserted", "Fingerprints noted as seen.", "spider", "kind")
FILTER_CAPACITY = _gauge("filter_capacity", "Fingerprints that fit before the filter grows.", "spider")
FILTER_BYTES = _gauge("filter_size_bytes", "Memory of the filter's bits.", "spider")
FILTER_LAYERS = _gauge("filter_layers", "Layers of the filter: 1, and 1 more each time that it grew.", "spider")
FILTER_CONFIGURED_ERROR = _gauge(
    "filter_configured_error_ratio", "Share of new links that may be taken for seen, as configured.", "spider"
)
FILTER_ESTIMATED_ERROR = _gauge(
    "filter_estimated_error_ratio",
    "Share of new links that are taken for seen now: (1 - exp(-kn/m))^k, chained over the layers.",
    "spider",
)
FILTER_EXPECTED_LOST = _gauge(
    "filter_expected_lost", "Pages that false positives have cost since the filter was new, by expectation.", "spider"
)

#: What the memory of a frontier goes to.
MemoryPart = Literal["queue", "hosts", "leases", "seen", "dead", "other"]

MEMORY = _gauge(
    "frontier_memory_bytes",
    "Memory of a frontier by part: sampled (MEMORY USAGE), and kept for up to a minute or longer among many spiders.",
    "spider",
    "part",
)

LARGEST_KEY = _gauge(
    "frontier_largest_key_bytes", "Memory of the largest key of a frontier: sampled along with its memory.", "spider"
)

MONGO_UP = _gauge("mongo_up", "Whether MongoDB answered.")
MONGO_PRIMARY = _gauge("mongo_primary", "Whether the server takes writes.")
MONGO_OPERATIONS = _counter("mongo_operations", "Operations received, by kind.", "operation")
MONGO_LATENCY = Family(
    "crawler_mongo_operation_duration_seconds", "summary", "Time that operations took inside the server.", ("kind",)
)
MONGO_CONNECTIONS = _gauge("mongo_connections", "Connections by state.", "state")
MONGO_QUEUED = _gauge("mongo_queued_operations", "Operations that wait for a lock or ticket.", "kind")
MONGO_CACHE_LIMIT = _gauge("mongo_cache_limit_bytes", "Most bytes that WiredTiger's cache may take.")
MONGO_CACHE_USED = _gauge("mongo_cache_used_bytes", "Bytes in WiredTiger's cache.")
MONGO_CACHE_DIRTY = _gauge("mongo_cache_dirty_bytes", "Bytes in WiredTiger's cache that are not yet on disk.")
MONGO_DOCUMENTS = _gauge("mongo_documents", "Documents stored, by collection.", "collection")
MONGO_DATA = _gauge("mongo_data_bytes", "Documents' size before compression on disk, by collection.", "collection")
MONGO_STORAGE = _gauge("mongo_storage_bytes", "Disk space of documents and indexes, by collection.", "collection")
BACKUP_SUCCESS = _gauge(
    "backup_last_success_timestamp_seconds", "When `make backup` was last through; there is none before the first."
)
MONGO_DISK_SIZE = _gauge("mongo_filesystem_size_bytes", "Size of the file system that holds MongoDB's data.")
MONGO_DISK_USED = _gauge("mongo_filesystem_used_bytes", "Used bytes of the file system that holds MongoDB's data.")
