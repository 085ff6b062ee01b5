"""The exporter against real servers: what it says is true, its parts fail alone, and it recovers by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from redis.exceptions import NoPermissionError

from bench.servers import EmbeddedMongo, EmbeddedRedis
from crawler.config import Config
from crawler.frontier.dedup import LUA as DEDUP
from crawler.frontier.keys import SPIDERS, Keys
from exporter import oldest
from exporter.__main__ import exporting
from exporter.scrape import Exporter

ROOT = Path(__file__).parents[2]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def exporter(redis_url: str, mongo_uri: str, mongo_db: str) -> Iterator[Exporter]:
    with exporting(config(redis_url, mongo_uri, mongo_db)) as made:
        yield made


def config(redis_url: str, mongo_uri: str, mongo_db: str = "crawl") -> Config:
    return Config.from_environ({"REDIS_URL": redis_url, "MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db})


def scrape(exporter: Exporter) -> Samples:
    families = text_string_to_metric_families(exporter.metrics().body.decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def fill(client: Redis, spider: str, **meta: int | str) -> Keys:
    """Make a frontier as the verbs would: 3 seeds at priority 0, 2 at 5, 1 at -2; a working and a lost worker."""
    keys = Keys.of(spider)
    now_ms = int(time.time() * 1000)
    client.sadd(SPIDERS, keys.tag)
    for priority, seeds in {0: 3, 5: 2, -2: 1}.items():
        client.zadd(keys.priorities, {str(priority): priority})
        client.rpush(keys.inbox(priority), *(f"--http://host/{priority}/{i}" for i in range(seeds)))
    client.zadd(keys.workers, {"working": now_ms + 30_000, "lost": now_ms - 1_000})
    client.hset(keys.leases("working"), mapping={"1:1": "a", "1:2": "b"})
    client.hset(keys.leases("lost"), mapping={"1:1": "c"})
    client.hset(keys.dead, "1", "d")
    client.hset(
        keys.meta,
        mapping={"state": "running", "epoch": "1", "accepted": "20", "done": "9", "removed": "1", "workers_lost": "4"},
    )
    for field, number in meta.items():
        client.hset(keys.meta, field, str(number))
    return keys


@pytest.mark.every_redis
def test_every_accepted_seed_is_shown_in_its_place(redis: Redis, exporter: Exporter) -> None:
    fill(redis, "shop")
    samples = scrape(exporter)
    bands = {"high": 2, "normal": 3, "low": 1, "host": 0, "suspect": 0}
    for band, seeds in bands.items():
        assert value(samples, "crawler_frontier_queued", spider="shop", band=band) == seeds
    assert value(samples, "crawler_frontier_accepted_total", spider="shop") == 20
    assert value(samples, "crawler_frontier_leased", spider="shop") == 3
    assert value(samples, "crawler_frontier_done_total", spider="shop") == 9
    assert value(samples, "crawler_frontier_dead", spider="shop") == 1
    assert value(samples, "crawler_frontier_removed_total", spider="shop") == 1
    assert value(samples, "crawler_frontier_complete", spider="shop") == 0
    assert exporter.failures == {}


@pytest.mark.every_redis
def test_the_oldest_seed_of_each_band_is_told_by_its_stamp(redis: Redis, exporter: Exporter) -> None:
    keys = fill(redis, "shop", parked=2)
    redis.rpush(keys.inbox(7), "--http://host/unstamped", b"\x04%011x--http://host/a" % 1_700_000_000_123)
    redis.rpush(keys.inbox(9), b"\x04%011x--http://host/b" % 1_700_000_050_000)
    redis.zadd(keys.priorities, {"7": 7, "9": 9})
    redis.hset(keys.parked, "slow", "-3,0")
    redis.rpush(keys.host(-3, "slow"), b"\x04%011x--http://slow/" % 1_600_000_000_000, "--http://slow/2")
    samples = scrape(exporter)
    name = "crawler_frontier_oldest_seed_timestamp_seconds"
    assert value(samples, name, spider="shop", band="high") == 1_700_000_000.123
    assert value(samples, name, spider="shop", band="host") == 1_600_000_000
    # What waits there does not say since when.
    assert (name, frozenset({("spider", "shop"), ("band", "normal")})) not in samples
    assert exporter.failures == {}


@pytest.mark.every_redis
def test_the_oldest_of_large_seeds_is_found_without_their_transfer(redis: Redis, exporter: Exporter) -> None:
    for spider in ("a", "b"):
        keys = fill(redis, spider)
        for level in range(10, 20):
            seeds = [f"--http://host/{level}/{n}/".ljust(10_000, "x") for n in range(30)]
            redis.rpush(keys.inbox(level), *seeds, b"\x04%011x--http://host/a" % (1_700_000_000_000 + level))
            redis.zadd(keys.priorities, {str(level): level})
    before_bytes = redis.info("stats")["total_net_output_bytes"]
    samples = scrape(exporter)
    sent_bytes = redis.info("stats")["total_net_output_bytes"] - before_bytes
    for spider in ("a", "b"):
        name = "crawler_frontier_oldest_seed_timestamp_seconds"
        assert value(samples, name, spider=spider, band="high") == 1_700_000_000.010
    # To all collectors, and the answer to INFO; the lists hold 6 MB.
    assert sent_bytes < 10_000


@pytest.mark.parametrize(("looked_at_bytes", "is_found"), [(400_000, False), (2_000_000, True)])
def test_the_lists_share_what_may_be_looked_at(
    redis: Redis, exporter: Exporter, looked_at_bytes: int, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oldest, "LOOKED_AT_BYTES", looked_at_bytes)
    keys = fill(redis, "shop")  # three lists, and this one: the stamp is behind 300 KB
    redis.rpush(keys.inbox(7), *["-" * 10_000] * 30, b"\x04%011x--http://host/a" % 1_700_000_000_000)
    redis.zadd(keys.priorities, {"7": 7})
    shown = ("crawler_frontier_oldest_seed_timestamp_seconds", frozenset({("spider", "shop"), ("band", "high")}))
    assert (shown in scrape(exporter)) == is_found


def test_limits_blocked_hosts_and_the_largest_key_are_told(redis: Redis, exporter: Exporter) -> None:
    keys = fill(redis, "shop", max_seeds=9, max_pages=50, pages=20)
    redis.zadd(keys.busy, {"a": "inf", "b": "inf", "c": 5})
    redis.hset(keys.parked, "c", "0")
    redis.sadd(keys.starts, *(f"{number:020}" for number in range(5000)))
    samples = scrape(exporter)
    found = {
        "pages": 20,
        "pages_limit": 50,
        "seeds_limit": 9,
        "full": 1,  # 6 are queued and 3 leased
        "hosts_waiting": 3,
        "hosts_blocked": 2,
        "hosts_set_apart": 1,
        "largest_key_bytes": redis.memory_usage(keys.starts, samples=0),
    }
    for part, number in found.items():
        assert value(samples, f"crawler_frontier_{part}", spider="shop") == pytest.approx(number, rel=0.05), part


def test_workers_are_told_apart_by_their_heartbeats(redis: Redis, exporter: Exporter) -> None:
    fill(redis, "shop")
    samples = scrape(exporter)
    for state, workers in {"working": 1, "idle": 0, "lost": 1}.items():
        assert value(samples, "crawler_workers", spider="shop", state=state) == workers
    assert value(samples, "crawler_workers_lost_total", spider="shop") == 4
    assert value(samples, "crawler_worker_leases", spider="shop", worker="working") == 2
    expiry_s = value(samples, "crawler_worker_lease_expiry_timestamp_seconds", spider="shop", worker="working")
    assert 0 < expiry_s - time.time() <= 30


@pytest.mark.parametrize(
    "write",
    [
        lambda redis, key: redis.rpush(key, "http://a/", "http://b/"),
        lambda redis, key: redis.sadd(key, "http://a/", "http://b/"),
        lambda redis, key: redis.zadd(key, {"http://a/": 1, "http://b/": 2}),
    ],
    ids=["list", "set", "sorted set"],
)
def test_the_queue_before_the_frontier_is_told_apart_from_the_frontier(
    redis: Redis, exporter: Exporter, write: Callable[[Redis, str], object]
) -> None:
    """K9."""
    fill(redis, "shop")
    write(redis, "shop:start_urls")
    assert value(scrape(exporter), "crawler_start_urls_waiting", spider="shop", key="shop:start_urls") == 2
    redis.delete("shop:start_urls")
    assert value(scrape(exporter), "crawler_start_urls_waiting", spider="shop", key="shop:start_urls") == 0


def test_what_is_gone_disappears(redis: Redis, exporter: Exporter) -> None:
    """Case M2."""
    keys = fill(redis, "shop")
    redis.zrem(keys.workers, "lost")
    assert not [labels for name, labels in scrape(exporter) if ("worker", "lost") in labels]
    redis.srem(SPIDERS, keys.tag)
    assert not [name for name, labels in scrape(exporter) if ("spider", "shop") in labels]


def test_one_spider_that_cant_be_read_leaves_the_others_whole(redis: Redis, exporter: Exporter) -> None:
    fill(redis, "good")
    redis.sadd(SPIDERS, "odd")
    redis.set(Keys.of("odd").meta, "no hash")
    samples = scrape(exporter)
    assert value(samples, "crawler_frontier_accepted_total", spider="good") == 20
    assert ("crawler_frontier_accepted_total", frozenset({("spider", "odd")})) not in samples
    assert value(samples, "crawler_redis_up") == 1
    assert value(samples, "crawler_collector_success", collector="frontier") == 0
    assert value(samples, "crawler_collector_success", collector="workers") == 1
    assert "odd" in exporter.failures["frontier"]


def test_a_scrape_takes_a_few_round_trips_however_many_spiders_there_are(redis: Redis, exporter: Exporter) -> None:
    spiders = 60
    for number in range(spiders):
        fill(redis, f"spider{number}", dedup="exact", seen=1)
    scrape(exporter)  # has made the script known
    before = redis.info("stats")["total_reads_processed"]
    scrape(exporter)
    assert redis.info("stats")["total_reads_processed"] - before < spiders / 2


@pytest.mark.parametrize(
    ("mode", "capacity", "error_rate", "ttl_ms"),
    # With a lifetime, and all in one slice of it, which has a quarter of the capacity and a fifth of the error rate.
    [("bloom", 500, 0.02, 0), ("bitmap", 500, 0.02, 0), ("bloom", 2000, 0.1, 10**12), ("bitmap", 2000, 0.1, 10**12)],
)
def test_a_filters_estimated_error_is_its_measured_error(
    redis: Redis, exporter: Exporter, mode: str, capacity: int, error_rate: float, ttl_ms: int
) -> None:
    keys = fill(redis, "shop")
    redis.hdel(keys.meta, "dedup", "seen")
    admit = redis.register_script(
        DEDUP + "\nreturn admit(dedup_of(KEYS[1], KEYS[2], unpack(ARGV, 1, 4)), cmsgpack.unpack(ARGV[5]))"
    )

    def new(fingerprints: list[bytes]) -> int:
        packed = msgspec.msgpack.encode([fingerprint.hex() for fingerprint in fingerprints])
        return sum(admit(keys=[keys.seen, keys.meta], args=[mode, str(capacity), str(error_rate), str(ttl_ms), packed]))

    inserted = new([b"seen%d" % number for number in range(1200)])
    samples = scrape(exporter)
    assert value(samples, "crawler_filter_inserted", spider="shop", kind=mode) == inserted
    lost = value(samples, "crawler_filter_expected_lost", spider="shop")
    assert abs((1200 - inserted) - lost) < 4 * lost**0.5 + 1
    assert value(samples, "crawler_filter_layers", spider="shop") == 2
    assert value(samples, "crawler_filter_capacity", spider="shop") == 1500
    estimated = value(samples, "crawler_filter_estimated_error_ratio", spider="shop")
    assert 0.01 < estimated < 0.02
    assert value(samples, "crawler_filter_configured_error_ratio", spider="shop") == error_rate
    # Each probe that counts as new changes the filter: few against what it holds.
    probes = 300
    taken_for_seen = probes - new([b"new%d" % number for number in range(probes)])
    assert abs(taken_for_seen - probes * estimated) < 4 * (probes * estimated) ** 0.5


def test_a_filter_that_was_made_anew_by_something_else_is_taken_as_it_is(redis: Redis, exporter: Exporter) -> None:
    """What a frontier noted of its filter is not what tells of this error."""
    keys = fill(redis, "shop")
    redis.hset(keys.meta, mapping={"dedup": "bloom capacity=100000 error_rate=0.001", "seen": 3000})
    redis.execute_command("BF.INSERT", keys.seen, "CAPACITY", 100_000, "ERROR", 0.001, "ITEMS", *range(3000))
    samples = scrape(exporter)
    assert value(samples, "crawler_filter_estimated_error_ratio", spider="shop") < 0.001
    assert value(samples, "crawler_filter_capacity", spider="shop") == 100_000

    redis.delete(keys.seen)
    redis.execute_command("BF.INSERT", keys.seen, "CAPACITY", 1000, "ERROR", 0.2, "ITEMS", *range(2500))
    samples = scrape(exporter)
    assert value(samples, "crawler_filter_capacity", spider="shop") == 3000
    estimated = value(samples, "crawler_filter_estimated_error_ratio", spider="shop")
    assert value(samples, "crawler_filter_configured_error_ratio", spider="shop") == 0.001
    probes = 2000
    taken_for_seen = sum(redis.execute_command("BF.MEXISTS", keys.seen, *(f"new{n}" for n in range(probes))))
    assert abs(taken_for_seen - probes * estimated) < 4 * (probes * estimated) ** 0.5

    # Forgotten, after its frontier was read: no error of this collector's.
    redis.delete(keys.seen)
    assert value(scrape(exporter), "crawler_collector_success", collector="filters") == 1


@pytest.mark.every_redis
def test_memory_by_part_adds_up_to_what_the_keys_take(redis: Redis, exporter: Exporter) -> None:
    """Case D4."""
    keys = fill(redis, "shop", parked=300)
    redis.rpush(keys.inbox(0), *(f"--http://host.example/some/path/{i}?page={i * i}" for i in range(20_000)))
    for host in range(100):
        redis.hset(keys.parked, f"host{host}", "0")
        redis.zadd(keys.busy, {f"host{host}": host})
        redis.zadd(keys.ready(0), {f"ready{host}": host})
        redis.rpush(keys.host(0, f"host{host}"), *(f"--http://host{host}/{i}" for i in range(3)))
    redis.sadd(keys.starts, *range(1000))
    samples = scrape(exporter)
    parts: dict[str, int] = {}
    for key in redis.scan_iter(match="{shop}:*"):
        part = part_of(key.decode().removeprefix("{shop}:"))
        parts[part] = parts.get(part, 0) + (redis.memory_usage(key, samples=0) or 0)
    for part, size_bytes in parts.items():
        shown = value(samples, "crawler_frontier_memory_bytes", spider="shop", part=part)
        assert shown == pytest.approx(size_bytes, rel=0.1), part


def part_of(key: str) -> str:
    kind = key.partition(":")[0]
    parts = {
        "queue": {"inbox", "priorities", "suspects"},
        "hosts": {"busy", "parked", "delays", "host", "ready"},
        "leases": {"workers", "starting", "leases", "session"},
        "seen": {"seen", "starts"},
        "dead": {"dead"},
        "other": {"meta"},
    }
    return next(part for part, kinds in parts.items() if kind in kinds)


# -- when something is away


def test_unreachable_servers_are_metrics_not_an_end(exporter_of_nothing: Exporter) -> None:
    samples = scrape(exporter_of_nothing)
    assert value(samples, "crawler_redis_up") == 0
    assert value(samples, "crawler_mongo_up") == 0
    collectors = ("frontier", "workers", "start_urls", "filters", "oldest", "memory", "mongo")
    assert [value(samples, "crawler_collector_success", collector=name) for name in collectors] == [0] * 7
    health = exporter_of_nothing.pages["/health"]()
    assert health.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert b"REDIS_URL" in health.body
    assert b"mongo: MongoDB at mongodb://127.0.0.1:1" in health.body


@pytest.fixture
def exporter_of_nothing() -> Iterator[Exporter]:
    with exporting(config("redis://127.0.0.1:1/0", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1")) as made:
        yield made


def test_it_recovers_by_itself(eventually: Callable[..., None]) -> None:
    """Case M2."""
    with (
        EmbeddedRedis() as redis,
        EmbeddedMongo(replica_set="rs0") as mongo,
        exporting(config(redis.url, mongo.url)) as exporter,
    ):
        with Redis.from_url(redis.url) as client:
            fill(client, "shop")
        assert value(scrape(exporter), "crawler_frontier_done_total", spider="shop") == 9
        redis.stop()
        mongo.stop()
        away = scrape(exporter)
        assert (value(away, "crawler_redis_up"), value(away, "crawler_mongo_up")) == (0, 0)
        assert ("crawler_frontier_done_total", frozenset({("spider", "shop")})) not in away
        redis.start()
        mongo.start()
        eventually(lambda: value(scrape(exporter), "crawler_mongo_primary") == 1)
        assert value(scrape(exporter), "crawler_frontier_done_total", spider="shop") == 9
        assert exporter.pages["/health"]().status == HTTPStatus.OK


def test_a_wrong_password_is_told_and_not_taken_for_a_server_that_is_away(redis_server: EmbeddedRedis) -> None:
    with Redis.from_url(redis_server.url) as admin:
        admin.acl_setuser("watcher", enabled=True, passwords=["+right"], reset=True)
    wrong = redis_server.url.replace("redis://", "redis://watcher:wrong@")
    with exporting(config(wrong, "mongodb://127.0.0.1:1")) as exporter:
        scrape(exporter)
    assert "REDIS_PASSWORD" in exporter.failures["frontier"]
    assert "wrong@" not in exporter.failures["frontier"]


def test_its_own_account_may_do_all_that_it_does_and_no_more(redis: Redis, redis_url: str) -> None:
    accounts = (ROOT / "deploy/users.acl").read_text().replace("\n    ", " ").splitlines()
    [account] = [line.split() for line in accounts if line.startswith("user exporter ")]
    rules = [rule.replace("#{redis_exporter}", ">secret") for rule in account[2:]]
    admin: Any = redis  # redis-py's annotations leave out execute_command
    admin.execute_command("ACL", "SETUSER", "exporter", "reset", *rules)
    keys = fill(redis, "shop")
    admin.execute_command("BF.ADD", keys.seen, "x")
    redis.hset(keys.meta, mapping={"dedup": "bloom capacity=100 error_rate=0.01", "seen": 1, "parked": 1})
    redis.hset(keys.parked, "host", "0")
    redis.rpush("shop:start_urls", "http://a/")
    redis.script_flush()
    with exporting(
        config(redis_url.replace("redis://", "redis://exporter:secret@"), "mongodb://127.0.0.1:1")
    ) as exporter:
        samples = scrape(exporter)
    assert set(exporter.failures) == {"mongo"}, exporter.failures
    assert value(samples, "crawler_frontier_done_total", spider="shop") == 9
    with Redis.from_url(redis_url, username="exporter", password="secret") as client:
        reader: Any = client
        for command in (("SET", "x", "1"), ("DEL", keys.meta), ("EVAL", "return 1", 0), ("CONFIG", "SET", "save", "")):
            with pytest.raises(NoPermissionError):
                reader.execute_command(*command)


# -- the command


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "exporter", *arguments],
        env=os.environ | environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_once_prints_the_metrics(redis: Redis, redis_url: str, mongo_uri: str) -> None:
    fill(redis, "shop")
    done = command("--once", REDIS_URL=redis_url, MONGO_URI=mongo_uri)
    assert done.returncode == 0, done.stderr
    assert 'crawler_frontier_done_total{spider="shop"} 9\n' in done.stdout


def test_once_tells_what_failed(mongo_uri: str) -> None:
    done = command("--once", REDIS_URL="redis://127.0.0.1:1/0", MONGO_URI=mongo_uri)
    assert done.returncode == 1
    assert "crawler_redis_up 0\n" in done.stdout
    assert "Check REDIS_URL" in done.stderr


def test_its_log_is_json_where_that_is_set() -> None:
    done = command("--once", LOG_JSON="true", REDIS_URL="redis://127.0.0.1:1/0", MONGO_URI="mongodb://127.0.0.1:1")
    first = json.loads(done.stderr.splitlines()[0])
    assert (first["level"], first["logger"]) == ("WARNING", "exporter.scrape")
    assert "127.0.0.1:1" in first["message"]


def test_a_port_in_use_ends_the_start_with_words(redis_server: EmbeddedRedis) -> None:
    done = command(EXPORTER_PORT=str(redis_server.port), METRICS_HOST="127.0.0.1")
    assert done.returncode == 1
    assert f"EXPORTER_PORT: no port to listen on (127.0.0.1:{redis_server.port}: Address already in use)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_ends_the_start_with_its_name() -> None:
    done = command(EXPORTER_PORT="many")
    assert done.returncode == 1
    assert done.stderr.startswith("EXPORTER_PORT=many: ")
