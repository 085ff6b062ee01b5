"""One contract for all ways to remember what was seen, Bloom filter, bitmaps and set, on each Redis of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError, ResponseError

from bench.servers import EmbeddedRedis
from crawler.frontier.dedup import LUA, Dedup

pytestmark = pytest.mark.every_redis

SEEN, META = "{shop}:seen", "{shop}:meta"
SCRIPT = f"""{LUA}
local dedup = dedup_of(KEYS[1], KEYS[2], unpack(ARGV, 1, 4))
local new, refused = admit(dedup, {{unpack(ARGV, 5)}})
return refused and redis.error_reply(refused) or new
"""
FORGET = f"{LUA} forget({{key = KEYS[1], meta = KEYS[2]}})"
#: Fingerprints in one call, as many as a worker sends.
BATCH = 512

Admit = Callable[..., list[int]]


def fingerprints(first: int, end: int) -> list[bytes]:
    return [hashlib.sha1(b"%d" % number, usedforsecurity=False).digest() for number in range(first, end)]


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture(params=["bloom", "bitmap", "exact"])
def dedup(request: pytest.FixtureRequest, redis_server: EmbeddedRedis) -> Dedup:
    if request.param == "bloom" and not redis_server.has_bloom:
        pytest.skip("this server has no Bloom filters")
    return Dedup(request.param, 1000, 0.001)


@pytest.fixture
def admit(client: Redis) -> Admit:
    return admit_with(client)


def admit_with(client: Redis) -> Admit:
    script = client.register_script(SCRIPT)

    def admit(dedup: Dedup, items: Sequence[bytes | str]) -> list[int]:
        new: list[int] = []
        for first in range(0, len(items) or 1, BATCH):
            new += script(keys=[SEEN, META], args=[*dedup.argv, *items[first : first + BATCH]])
        return new

    return admit


def forget(client: Redis) -> None:
    client.register_script(FORGET)(keys=[SEEN, META])


def size_bytes(client: Redis) -> int:
    return sum(int(client.memory_usage(key, samples=0) or 0) for key in client.scan_iter(f"{SEEN}*"))


# -- the contract ------------------------------------------------------------------------------------------------------


def test_d3_d8_what_was_new_once_is_seen_ever_after(admit: Admit, dedup: Dedup) -> None:
    assert admit(dedup, fingerprints(0, 3)) == [1, 1, 1]
    assert admit(dedup, fingerprints(1, 5)) == [0, 0, 1, 1]


def test_of_equal_fingerprints_in_one_call_the_first_is_new(admit: Admit, dedup: Dedup) -> None:
    one, two = fingerprints(0, 2)
    assert admit(dedup, [one, two, one, one, two]) == [1, 1, 0, 0, 0]


def test_nothing_asked_is_nothing_done(admit: Admit, client: Redis, dedup: Dedup) -> None:
    assert admit(dedup, []) == []
    assert client.dbsize() == 0


def test_d11_d12_a_fingerprint_may_be_anything(admit: Admit, dedup: Dedup) -> None:
    odd = [b"", b"\x00", "http://h/ü", b"x" * 100_000, b"1", b"\xff\xfe", b"exactly 20 bytes lon"]
    assert admit(dedup, odd) == [1] * len(odd)
    assert admit(dedup, odd) == [0] * len(odd)


def test_a_call_of_many_thousands_is_one_call(client: Redis, dedup: Dedup) -> None:
    script = client.register_script(SCRIPT.replace("{unpack(ARGV, 5)}", "cmsgpack.unpack(ARGV[5])"))
    packed = b"\xdc\x23\x28" + b"".join(b"\xa4%04d" % number for number in range(9000))
    assert sum(script(keys=[SEEN, META], args=[*dedup.argv, packed])) > 8990
    assert sum(script(keys=[SEEN, META], args=[*dedup.argv, packed])) == 0


def test_the_books_say_what_it_was_made_for_and_how_much_is_in_it(admit: Admit, client: Redis, dedup: Dedup) -> None:
    admit(dedup, fingerprints(0, 7))
    admit(dedup, fingerprints(5, 9))
    limits = b"" if dedup.mode == "exact" else b" capacity=1000 error_rate=0.001"
    assert client.hgetall(META) == {b"dedup": dedup.mode.encode() + limits, b"seen": b"9"}


def test_r1_all_keys_carry_the_hash_tag(admit: Admit, client: Redis, dedup: Dedup) -> None:
    admit(dedup, fingerprints(0, 5000))
    assert {key.partition(b"}")[0] for key in client.scan_iter()} == {b"{shop"}


def test_d9_two_workers_that_find_the_same_links_take_each_once(redis_url: str, dedup: Dedup) -> None:
    taken: list[int] = []
    barrier = threading.Barrier(2)

    def work() -> None:
        with Redis.from_url(redis_url) as own:
            admit = admit_with(own)
            barrier.wait()
            for number in range(0, 1000, 20):
                taken.extend(admit(replace(dedup, capacity=10_000), fingerprints(number, number + 20)))

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(taken) == 1000


def test_off_takes_everything_and_keeps_nothing(admit: Admit, client: Redis) -> None:
    assert admit(Dedup("off", 1000, 0.001), [b"a", b"a"]) == [1, 1]
    assert client.dbsize() == 0


# -- errors and memory -------------------------------------------------------------------------------------------------


def test_d1_d2_at_capacity_it_keeps_its_error_rate_and_its_size(admit: Admit, client: Redis, dedup: Dedup) -> None:
    planned = 100_000
    dedup = replace(dedup, capacity=planned)
    wrong = planned - sum(admit(dedup, fingerprints(0, planned)))
    assert wrong <= planned * 0.0005
    if dedup.mode != "exact":
        # The allocator rounds up to its size classes: less the larger the filter.
        assert size_bytes(client) / planned < 2.4
    fresh = 10_000
    assert fresh - sum(admit(dedup, fingerprints(planned, planned + fresh))) <= fresh * 0.0011
    assert sum(admit(dedup, fingerprints(0, 5000))) == 0


def test_d5_d6_far_past_its_capacity_it_grows_within_its_error_rate(admit: Admit, client: Redis, dedup: Dedup) -> None:
    held = 40 * dedup.capacity
    wrong = held - sum(admit(dedup, fingerprints(0, held)))
    assert wrong <= held * 0.0011
    assert sum(admit(dedup, fingerprints(0, held)[::4])) == 0
    if dedup.mode == "exact":
        assert wrong == 0
    else:
        assert size_bytes(client) / held < 6


def test_d6_a_large_bitmap_is_split_into_small_strings(admit: Admit, client: Redis) -> None:
    dedup = Dedup("bitmap", 2_000_000, 0.001)
    admit(dedup, fingerprints(0, 2000))
    blocks = list(client.scan_iter(f"{SEEN}:*"))
    assert len(blocks) == 194
    assert {client.strlen(block) for block in blocks} == {20 * 1024 - 15}
    assert size_bytes(client) / dedup.capacity < 2.01
    assert sum(admit(dedup, fingerprints(0, 2000))) == 0


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"capacity": 2000}, {"error_rate": 0.01}, {"mode": "other"}], ids=str)
def test_d5_other_settings_are_refused_until_it_is_forgotten(
    admit: Admit, client: Redis, dedup: Dedup, change: dict[str, Any]
) -> None:
    if change == {"mode": "other"}:
        change = {"mode": "exact" if dedup.mode != "exact" else "bitmap"}
    admit(dedup, fingerprints(0, 5000))
    changed = replace(dedup, **change)
    if (dedup.mode, changed.mode) == ("exact", "exact"):
        assert admit(changed, fingerprints(4999, 5001)) == [0, 1], "a set has no limits"
        return
    with pytest.raises(ResponseError, match=r'DEDUP \{shop\}:seen was made for ".*" and can\'t serve ".*": set that'):
        admit(changed, fingerprints(0, 3))
    assert sum(admit(dedup, fingerprints(0, 5000))) == 0
    forget(client)
    assert client.dbsize() == 0
    assert admit(changed, fingerprints(0, 3)) == [1, 1, 1]


def test_k3_a_key_that_something_else_wrote_is_refused_and_kept(admit: Admit, client: Redis, dedup: Dedup) -> None:
    client.sadd(SEEN, "0123456789abcdef")
    with pytest.raises(ResponseError, match=r"DEDUP \{shop\}:seen holds a set of which \{shop\}:meta says nothing"):
        admit(dedup, fingerprints(0, 3))
    assert client.smembers(SEEN) == {b"0123456789abcdef"}
    assert not client.exists(META)


def test_a_filter_whose_books_are_lost_is_refused(admit: Admit, client: Redis) -> None:
    admit(Dedup("exact", 1, 0.5), fingerprints(0, 3))
    client.delete(META)
    with pytest.raises(ResponseError, match="holds a set of which"):
        admit(Dedup("exact", 1, 0.5), fingerprints(0, 3))


@contextlib.contextmanager
def full(client: Redis) -> Iterator[None]:
    client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


def test_a_refused_call_has_done_nothing(admit: Admit, client: Redis, dedup: Dedup) -> None:
    admit(dedup, fingerprints(0, 10))
    before = client.hgetall(META)
    with full(client), pytest.raises((OutOfMemoryError, ResponseError), match="maxmemory"):
        admit(dedup, fingerprints(0, 20))
    assert client.hgetall(META) == before
    assert admit(dedup, fingerprints(5, 20)) == [0] * 5 + [1] * 10


def test_a_refused_first_call_makes_no_filter(admit: Admit, client: Redis, dedup: Dedup) -> None:
    with full(client), pytest.raises((OutOfMemoryError, ResponseError), match="maxmemory"):
        admit(dedup, fingerprints(0, 20))
    assert client.dbsize() == 0
    assert admit(dedup, fingerprints(0, 20)) == [1] * 20


def test_a_block_of_another_type_stops_the_call_before_it_writes(admit: Admit, client: Redis) -> None:
    dedup = Dedup("bitmap", 200_000, 0.001)
    client.rpush(f"{SEEN}:0:3", "not a bitmap")
    with pytest.raises(ResponseError, match="wrong kind of value"):
        admit(dedup, fingerprints(0, 300))
    assert client.keys() == [f"{SEEN}:0:3".encode()]


# -- where the server has no Bloom filters -----------------------------------------------------------------------------


def test_bloom_goes_on_with_the_bitmaps_of_a_server_that_had_none(admit: Admit, client: Redis) -> None:
    admit(Dedup("bitmap", 1000, 0.001), fingerprints(0, 10))
    assert admit(Dedup("bloom", 1000, 0.001), fingerprints(8, 12)) == [0, 0, 1, 1]
    assert not client.exists(SEEN)


def test_bloom_takes_bitmaps_where_the_server_has_no_bloom_filters(redis_server: EmbeddedRedis) -> None:
    with contextlib.closing(EmbeddedRedis(redis_server.program)) as plain:
        plain._bloom = None
        plain.start()
        assert not plain.has_bloom
        with Redis.from_url(plain.url) as client:
            admit = admit_with(client)
            assert admit(Dedup("bloom", 1000, 0.001), fingerprints(0, 3)) == [1, 1, 1]
            assert admit(Dedup("bloom", 1000, 0.001), fingerprints(1, 4)) == [0, 0, 1]
            assert client.hget(META, "dedup") == b"bitmap capacity=1000 error_rate=0.001"


# -- what is forgotten after a time

TTL_MS = 4000
AT = SCRIPT.replace("local new", "dedup.now_ms = tonumber(ARGV[5])\nlocal new").replace(
    "unpack(ARGV, 5)", "unpack(ARGV, 6)"
)

AdmitAt = Callable[[Dedup, int, Sequence[bytes]], list[int]]


@pytest.fixture
def admit_at(client: Redis) -> AdmitAt:
    script = client.register_script(AT)

    def admit(dedup: Dedup, now_ms: int, items: Sequence[bytes]) -> list[int]:
        new: list[int] = script(keys=[SEEN, META], args=[*dedup.argv, 10**12 + now_ms, *items])
        return new

    return admit


@pytest.mark.parametrize("seen_ms", [0, 1, 500, 999])
def test_d10_what_was_seen_is_forgotten_after_its_time_and_a_quarter_at_most(
    admit_at: AdmitAt, dedup: Dedup, seen_ms: int
) -> None:
    dedup = replace(dedup, ttl_ms=TTL_MS)
    (one,) = fingerprints(0, 1)
    assert admit_at(dedup, seen_ms, [one, one]) == [1, 0]
    for now_ms in (seen_ms + 1, 1000, 2500, seen_ms + TTL_MS, 4999):
        assert admit_at(dedup, now_ms, [one]) == [0]
    assert admit_at(dedup, 5000, [one]) == [1]
    assert admit_at(dedup, 5000, [one]) == [0]


def test_slices_are_dropped_whole_and_the_books_say_what_is_left(
    admit_at: AdmitAt, client: Redis, dedup: Dedup
) -> None:
    dedup = replace(dedup, ttl_ms=TTL_MS)
    for number in range(30):
        now_ms = 700 * number
        admit_at(dedup, now_ms, fingerprints(40 * number, 40 * number + 60))  # 20 of which the next one sees again
        first = max(0, now_ms // 1000 - 4)
        slices = {key.decode().split(":")[2] for key in client.scan_iter(f"{SEEN}*")}
        assert slices <= {str(10**9 + slice_) for slice_ in range(first, now_ms // 1000 + 1)}
    noted: dict[bytes, bytes] = client.hgetall(META)  # type: ignore[assignment]
    counts = [int(part.partition(b"=")[2]) for part in noted[b"slices"].split()]
    assert sum(counts) == int(noted[b"seen"])
    assert 5 * 40 <= sum(counts) <= 8 * 40
    forget(client)
    assert client.dbsize() == 0


def test_slices_grow_within_the_error_rate(admit_at: AdmitAt, client: Redis, dedup: Dedup) -> None:
    dedup = replace(dedup, capacity=4000, ttl_ms=TTL_MS)
    new = 0
    for number in range(100):  # 20 times what a slice is planned for, over all that are looked at
        new += sum(admit_at(dedup, 50 * number, fingerprints(500 * number, 500 * number + 500)))
    assert 50_000 * (1 - 0.0011) <= new <= 50_000
    assert sum(admit_at(dedup, 4999, fingerprints(0, 50_000)[::50])) == 0


def test_a_clock_that_was_set_back_forgets_nothing(admit_at: AdmitAt, dedup: Dedup) -> None:
    dedup = replace(dedup, ttl_ms=TTL_MS)
    one, two = fingerprints(0, 2)
    assert admit_at(dedup, 9000, [one]) == [1]
    assert admit_at(dedup, 100, [one, two]) == [0, 1]
    assert admit_at(dedup, 9500, [one, two]) == [0, 0]
    assert admit_at(dedup, 13_999, [one, two]) == [0, 0]


@pytest.mark.parametrize("ttl_ms", [0, 2 * TTL_MS])
def test_another_lifetime_is_refused_until_it_is_forgotten(
    admit: Admit, client: Redis, dedup: Dedup, ttl_ms: int
) -> None:
    admit(replace(dedup, ttl_ms=TTL_MS), fingerprints(0, 3))
    other = replace(dedup, ttl_ms=ttl_ms)
    with pytest.raises(ResponseError, match=r'was made for ".* ttl_ms=4000" and can\'t serve ".*": set that back, or'):
        admit(other, fingerprints(0, 3))
    forget(client)
    assert admit(other, fingerprints(0, 3)) == [1, 1, 1]


def test_a_refused_call_with_slices_has_done_nothing(admit_at: AdmitAt, client: Redis, dedup: Dedup) -> None:
    dedup = replace(dedup, ttl_ms=TTL_MS)
    admit_at(dedup, 0, fingerprints(0, 10))
    before = client.hgetall(META)
    with full(client), pytest.raises((OutOfMemoryError, ResponseError), match="maxmemory"):
        admit_at(dedup, 7000, fingerprints(0, 20))
    assert client.hgetall(META) == before
    assert admit_at(dedup, 4500, fingerprints(5, 20)) == [0] * 5 + [1] * 10
