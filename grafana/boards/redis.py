"""Redis: its memory, its pace, its durability, and how long workers wait for it."""

from grafana.layout import Board, Row
from grafana.panels import SELECTED, About, Query, heatmap, series, stat

_STATE = Row(
    "State",
    4,
    [
        stat(
            About("Redis", "Whether both exporters can read it.", "bool_yes_no", "RedisDown"),
            "min(crawler_redis_up or redis_up)",
            curve=False,
        ),
        stat(
            About("Memory used", "Of maxmemory. Full: workers wait.", "percentunit", "RedisRefusesWrites"),
            "crawl:redis_memory_used:ratio",
            empty="no limit",
        ),
        stat(
            About("Append-only file", "Whether what Redis takes in is kept.", "bool_yes_no", "RedisNotDurable"),
            "min(redis_aof_enabled) * min(redis_aof_last_write_status) * min(redis_aof_last_bgrewrite_status)",
            curve=False,
        ),
        stat(
            About(
                "Evicted keys",
                "Anything but 0: parts of the frontier were thrown away. See RedisEvicts.",
                "short",
                limit=0,
            ),
            "sum(redis_evicted_keys_total)",
            curve=False,
        ),
        stat(About("Up for", "Since its last start.", "s"), "max(redis_uptime_in_seconds)", curve=False),
    ],
)

_MEMORY = Row(
    "Memory",
    8,
    [
        series(
            About("Memory", "Used by data and buffers, resident, and the limit.", "bytes"),
            Query("max(redis_memory_used_bytes)", "used"),
            Query("max(redis_memory_used_rss_bytes)", "resident"),
            Query("max(redis_memory_max_bytes) > 0", "limit"),
        ),
        series(
            About(
                "Fragmentation",
                "Resident by used. Well above 1.5 on a full server: memory that nobody can use.",
                "short",
            ),
            Query("max(redis_mem_fragmentation_ratio)", "ratio"),
        ),
        series(
            About(
                "Largest key",
                "Of each spider's, sampled. Above half a gigabyte a key is slow to move, load and delete; a seen-set "
                "this large is better a Bloom filter (DEDUP=bloom).",
                "bytes",
                limit=512 << 20,
            ),
            Query(f"max by (spider) (crawler_frontier_largest_key_bytes{SELECTED})"),
        ),
        series(
            About(
                "Delayed fsyncs",
                "The disk did not keep up with the append-only file: commands had to wait.",
                "ops",
                limit=0,
            ),
            Query("max(rate(redis_aof_delayed_fsync[$__rate_interval]))", "delayed"),
            is_trouble=True,
        ),
    ],
)

_PACE = Row(
    "Pace",
    8,
    [
        series(
            About(
                "Commands",
                "The eight most frequent; the verbs of the frontier are scripts (evalsha), and what they call counts, "
                "too.",
                "ops",
            ),
            # Those of the whole window: the eight of each moment would be twenty in all.
            Query(
                "sum by (cmd) (rate(redis_commands_total[$__rate_interval]))"
                " and topk(8, sum by (cmd) (rate(redis_commands_total[$__range] @ end())))",
                "{{cmd}}",
            ),
            stacked=True,
        ),
        series(
            About("Busy", "Share of Redis's one thread that commands take. Near 1 it is the limit.", "percentunit"),
            Query("sum(rate(redis_commands_duration_seconds_total[$__rate_interval]))", "busy"),
            largest=1,
        ),
        series(
            About("Clients", "Connections; a few a worker.", "short"),
            Query("max(redis_connected_clients)", "connected"),
        ),
        series(
            About("Traffic", "Bytes in and out.", "Bps"),
            Query("max(rate(redis_net_input_bytes_total[$__rate_interval]))", "in"),
            Query("max(rate(redis_net_output_bytes_total[$__rate_interval]))", "out"),
        ),
    ],
)

_SEEN_BY_WORKERS = Row(
    "As the workers see it",
    8,
    [
        heatmap(
            About(
                "Conversations",
                "How long an exchange with Redis took. Much above 50 ms: network, or Redis busy.",
                "s",
            ),
            f"sum by (le) (increase(crawler_redis_command_duration_seconds_bucket{SELECTED}[$__rate_interval]))",
        ),
        series(
            About("Conversations by kind", "How often workers talk to Redis.", "ops"),
            Query(
                f"sum by (operation) (rate(crawler_redis_command_duration_seconds_count{SELECTED}[$__rate_interval]))",
                "{{operation}}",
            ),
            stacked=True,
        ),
        series(
            About("Conversations a page", "Round trips to Redis a page; 0.1 or less when busy.", "short"),
            Query(
                f"sum(rate(crawler_redis_command_duration_seconds_count{SELECTED}[$__rate_interval]))"
                f" / (sum(rate(crawler_pages_total{SELECTED}[$__rate_interval])) > 0)",
                "a page",
            ),
        ),
    ],
)

BOARD = Board(
    "redis",
    "Seedbed: Redis",
    "The server that holds the frontier.",
    [_STATE, _MEMORY, _PACE, _SEEN_BY_WORKERS],
)
