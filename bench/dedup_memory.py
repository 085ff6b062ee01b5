"""Measure what remembering a URL costs: bytes, errors and time, for each way that the dedup has.

    python -m bench.dedup_memory [--fingerprints 1000000] [--redis /path/of/redis-server]

Fills each filter to its planned capacity, then asks for as many URLs (a million at most) that it never saw.
The bytes are those of MEMORY USAGE; an allocator may round a large Bloom filter up to its next size.
"""

import argparse
import hashlib
import time
from collections.abc import Iterator

from redis import Redis

from bench.servers import EmbeddedRedis, find_redis
from crawler.frontier.dedup import LUA, Dedup

KEY, META = "{bench}:seen", "{bench}:meta"
ERROR_RATE = 0.001
BATCH = 512
ADMIT = f"""{LUA}
local dedup = dedup_of(KEYS[1], KEYS[2], unpack(ARGV, 1, 4))
local added = 0
for _, new in ipairs(admit(dedup, {{unpack(ARGV, 5)}})) do added = added + new end
return added
"""


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fingerprints", type=int, default=1_000_000)
    parser.add_argument("--redis", help="the redis-server program to measure")
    options = parser.parse_args()
    with EmbeddedRedis(find_redis(options.redis), options={"appendonly": "no"}) as server:
        print(f"{server.program}, {options.fingerprints:,} fingerprints, planned error rate {ERROR_RATE}")
        print(f"{'mode':8}{'bytes each':>12}{'error rate':>12}{'new, µs':>10}{'seen, µs':>10}")
        for mode in ("bloom", "bitmap", "exact"):
            if mode == "bloom" and not server.has_bloom:
                continue
            with Redis.from_url(server.url) as client:
                print(f"{mode:8}" + measure(client, Dedup(mode, options.fingerprints, ERROR_RATE)))


def measure(client: Redis, dedup: Dedup) -> str:
    """Return one line of figures."""
    script = client.register_script(ADMIT)

    def admit(numbers: range) -> tuple[int, float]:
        added, spent_s = 0, 0.0
        for batch in batches(numbers):
            began = time.perf_counter()
            added += script(keys=[KEY, META], args=[*dedup.argv, *batch])
            spent_s += time.perf_counter() - began
        return added, spent_s / len(numbers) * 1e6

    client.flushall()
    _, new_us = admit(range(dedup.capacity))
    size = sum(int(client.memory_usage(key, samples=0) or 0) for key in client.scan_iter())
    _, seen_us = admit(range(min(dedup.capacity, 100_000)))
    fresh = range(dedup.capacity, dedup.capacity + min(dedup.capacity, 1_000_000))
    wrong = len(fresh) - admit(fresh)[0]
    return f"{size / dedup.capacity:12.2f}{wrong / len(fresh):12.5f}{new_us:10.1f}{seen_us:10.1f}"


def batches(numbers: range) -> Iterator[list[bytes]]:
    """Yield fingerprints as a worker sends them, many at a time."""
    for first in range(numbers.start, numbers.stop, BATCH):
        part = range(first, min(first + BATCH, numbers.stop))
        yield [hashlib.sha1(b"%d" % number, usedforsecurity=False).digest() for number in part]


if __name__ == "__main__":
    main()
