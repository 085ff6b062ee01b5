"""What a page, a queued seed and a seen URL cost: what no busy machine changes, and no change of the code may raise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from bench import addresses
from bench.contest import steady_costs
from bench.crawl.track import SITE, Track
from bench.parts import dedup
from bench.parts.seeds import Scales
from bench.servers import EmbeddedRedis

URLS = 20_000
SEEN = 100_000


@pytest.fixture
def redis(redis_url: str) -> Iterator[Any]:
    with Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


def test_a_busy_page_costs_four_commands(redis_server: EmbeddedRedis, redis: Redis) -> None:
    """In scripts and around them, at 20 links a page: push, acknowledge and take in one exchange of many pages."""
    costs = asyncio.run(steady_costs(redis_server.url, redis))
    assert costs["commands_per_page"] < 4
    assert costs["request_bytes_per_page"] < 1900


def test_a_worker_asks_redis_once_for_many_pages() -> None:
    """From connecting to leaving, which counts much in so small a crawl; scrapy-redis asks 22 times for each page."""
    with Track(replace(SITE, products=400)) as track:
        # As a slow machine has more of them, the calls that are made after some time are not counted.
        run = track.crawl("ours", FRONTIER_FLUSH_S=60, FRONTIER_POLL_S=60)
    assert run["round_trips_per_page"] < 0.15


def test_a_queued_seed_costs_what_its_address_does_compressed(redis_server: EmbeddedRedis, redis: Redis) -> None:
    urls = addresses.made_up(URLS)
    scales = Scales(redis_server, redis)
    assert scales.ours(urls) < 26
    assert scales.ours(addresses.shuffled(urls)) < 37


@pytest.mark.parametrize(("way", "size_bytes"), [("bloom", 2.0), ("bitmap", 2.1), ("exact", 60)])
def test_a_seen_url_costs_two_bytes(way: str, size_bytes: float, redis_server: EmbeddedRedis, redis: Redis) -> None:
    if way == "bloom" and not redis_server.has_bloom:
        pytest.skip("this Redis has no Bloom filter of its own")
    run = dedup.fill(redis, way, SEEN)
    assert run["bytes_per_url"] < size_bytes
    assert run["error_rate"] < 0.0011
