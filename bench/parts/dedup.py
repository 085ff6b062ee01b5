"""What remembering a URL costs in Redis, and how often a new one is taken for seen, in each way that there is."""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from redis import Redis

from bench.frame import REDIS_CONF, Bars, Bench, Figures, Part, Run, figures_of
from bench.servers import EmbeddedRedis
from crawler.frontier.dedup import LUA, Dedup

ERROR_RATE = 0.001
#: New URLs that are asked about, to count those that are taken for seen.
ASKED = 1_000_000
#: URLs of one call.
BATCH = 4000
KEY, META = "{bench}:seen", "{bench}:meta"
MILLION = 1_000_000

# Fingerprints are made where they are used: else Python would take most of the time. The filters hash them anyway.
_ADMIT = f"""{LUA}
local dedup = dedup_of(KEYS[1], KEYS[2], unpack(ARGV, 1, 4))
local fingerprints, added = {{}}, 0
for number = ARGV[5], ARGV[6] do fingerprints[#fingerprints + 1] = struct.pack('>I8c8', number, 'seedbed.') end
for _, new in ipairs(admit(dedup, fingerprints)) do added = added + new end
return added
"""
# As scrapy-redis does it: 40 hexadecimal digits in a set.
_SADD = """
local added = 0
for number = ARGV[1], ARGV[2] do added = added + redis.call('SADD', KEYS[1], string.format('%040x', number)) end
return added
"""

_PEERS = {
    "set": "set of scrapy-redis",
    "exact": "Seedbed, exact",
    "bitmap": "Seedbed, Bloom filter in bitmaps",
    "bloom": "Seedbed, Bloom filter of Redis",
}

#: Notes URLs as seen, from the one number to the other, and returns how many were new.
Admit = Callable[[int, int], int]


def measure(bench: Bench) -> Figures:
    """Fill each filter to its planned capacity, then ask about URLs that it never saw."""
    sizes = [size * MILLION for size in ((1, 10, 100) if bench.large else (1, 10))]
    figures: Figures = {}
    with EmbeddedRedis(config_file=REDIS_CONF, options={"appendonly": "no"}) as server:
        client: Any = Redis.from_url(server.url, socket_timeout=600)
        for size in [MILLION // 10] if bench.quick else sizes:
            ways = [way for way in _PEERS if way != "bloom" or server.has_bloom]
            if size > MILLION and not bench.large:  # in Lua, a million takes half a minute
                ways.remove("bitmap")
            runs = bench.in_turns(1, {way: partial(fill, client, way, size) for way in ways})
            prefix = f"{size // MILLION}_million." if size > MILLION else ""
            figures |= {f"{prefix}{name}": figure for name, figure in figures_of(runs).items()}
        client.close()
        bench.notes.append(f"dedup: {server.program}, planned error rate {ERROR_RATE}.")
        if not server.has_bloom:
            bench.notes.append("dedup: this Redis has no Bloom filter of its own.")
    return figures


def fill(client: Any, way: str, size: int) -> Run:
    """Fill a filter (`set`, `exact`, `bitmap` or `bloom`) to the capacity of *size* URLs, and ask about new ones."""
    client.flushall()
    admit = _admit(client, way, size)
    began_s = perf_counter()
    for first in range(0, size, BATCH):
        admit(first, min(first + BATCH, size) - 1)
    took_s = perf_counter() - began_s
    size_bytes = sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter())
    asked = min(size, ASKED)
    new = sum(admit(first, first + BATCH - 1) for first in range(size, size + asked, BATCH))
    return {"bytes_per_url": size_bytes / size, "error_rate": 1 - new / asked, "us_per_new_url": took_s / size * 1e6}


def _admit(client: Any, way: str, size: int) -> Admit:
    if way == "set":
        sadd = client.register_script(_SADD)
        return lambda first, last: int(sadd(keys=[KEY], args=[first, last]))
    dedup = Dedup(way, size, ERROR_RATE)  # type: ignore[arg-type]
    script = client.register_script(_ADMIT)
    return lambda first, last: int(script(keys=[KEY, META], args=[*dedup.argv, first, last]))


PART = Part(
    "dedup",
    "What remembering a URL costs",
    f"""Each filter is filled to its planned capacity; what its keys weigh then (MEMORY USAGE with SAMPLES 0) is divided
    by the URLs. Then it is asked about as many URLs that it never saw, at most {ASKED:,}: those that it calls seen are
    its errors, each a page that a crawl would miss. The planned error rate is {ERROR_RATE}. The set holds what
    scrapy-redis puts into it.""",
    measure,
    {
        "bytes_per_url": "bytes of Redis for a URL that was seen, at the planned capacity",
        "error_rate": "share of new URLs that were taken for seen",
        "us_per_new_url": "microseconds of Redis to look a new URL up and note it",
    },
    [Bars("Bytes a URL that was seen", "bytes_per_url", _PEERS)],
)
