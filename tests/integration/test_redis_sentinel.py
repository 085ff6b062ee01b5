"""Behind a Sentinel: the master dies, and the frontier goes on at its replica, with what the replica has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.demo.worker import WorkerProcess
from bench.servers import EmbeddedRedis, RedisProgram, find_redis, installed_redis
from bench.servers.process import free_port
from crawler.errors import FrontierDownError, FrontierError
from tests.certificates import Authority
from tests.exchanges import KEYS, Stream, converse, shop_crawl, status_at, worker_at
from tests.topologies import MASTER, EmbeddedSentinel, WatchedPair, ask, program_with_tls

Start = Callable[..., WorkerProcess]


@pytest.fixture(scope="module")
def sentinel() -> Iterator[EmbeddedSentinel]:
    """Give a Sentinel with an account of its own, which watches a master with another."""
    with (
        EmbeddedRedis(options={"user worker": "on >of-redis ~* +@all"}) as master,
        EmbeddedSentinel(find_redis(), master.port, "requirepass of-sentinel") as watching,
    ):
        yield watching


ACCOUNTS = {"REDIS_USERNAME": "worker", "REDIS_PASSWORD": "of-redis", "REDIS_SENTINEL_PASSWORD": "of-sentinel"}


async def test_a_sentinel_with_an_account_of_its_own(sentinel: EmbeddedSentinel) -> None:
    """Case R2."""
    await converse(sentinel.url, **ACCOUNTS)


@pytest.mark.parametrize(
    ("password", "reason"),
    [("", "(Authentication required|HELLO must be called)"), ("wrong", "invalid username-password pair")],
)
async def test_the_settings_of_the_sentinels_account_are_named(
    sentinel: EmbeddedSentinel, password: str, reason: str
) -> None:
    told = f"127.0.0.1:{sentinel.port}, a Sentinel, refuses the account: {reason}.*Check REDIS_SENTINEL_USERNAME and"
    with pytest.raises(FrontierError, match=told) as caught:
        await converse(sentinel.url, **ACCOUNTS | {"REDIS_SENTINEL_PASSWORD": password})
    assert not isinstance(caught.value, FrontierDownError)


async def test_the_sentinels_that_answer_are_enough(sentinel: EmbeddedSentinel) -> None:
    url = sentinel.url.replace("//", f"//127.0.0.1:{free_port()},")
    assert status_at(url, KEYS, **ACCOUNTS).unbalanced == 0


async def test_a_master_that_no_sentinel_knows_is_named(sentinel: EmbeddedSentinel) -> None:
    dead = f"127.0.0.1:{free_port()}"
    url = f"redis+sentinel://{dead},127.0.0.1:{sentinel.port}/other"
    with pytest.raises(FrontierDownError, match=f"{dead}: .*refused.*knows no master 'other'"):
        await converse(url, **ACCOUNTS)


async def test_over_tls(tmp_path: Path) -> None:
    authority, program = Authority(tmp_path), program_with_tls()
    options = authority.server_options("127.0.0.1")
    port, sentinel_port = free_port(), free_port()
    lines = [f"{name} {value}" for name, value in (*options.items(), ("tls-port", sentinel_port))]
    with (
        EmbeddedRedis(program, options={**options, "tls-port": str(port)}),
        EmbeddedSentinel(program, port, *lines),
    ):
        await converse(f"rediss+sentinel://127.0.0.1:{sentinel_port}/{MASTER}?ssl_ca_certs={authority.file}")


@pytest.mark.parametrize("program", installed_redis(), ids=str)
async def test_a_stream_of_calls_goes_on_at_the_replica(program: RedisProgram) -> None:
    with WatchedPair(program) as pair:
        async with worker_at(pair.url) as worker:
            stream = Stream(worker)
            await stream.push_while(lambda: stream.pushed < 100)
            pushing = asyncio.create_task(stream.push_while(lambda: not pair.has_failed_over))
            await asyncio.to_thread(pair.master.kill)
            await pushing
            await stream.push()
        status = status_at(pair.url)
        assert (status.queued, status.accepted, status.unbalanced) == (stream.pushed, stream.pushed, 0)


async def test_what_the_replica_never_got_is_offered_again() -> None:
    """The session's number tells: links that were accepted after replication broke are sent once more."""
    with WatchedPair() as pair:
        async with worker_at(pair.url) as worker:
            stream = Stream(worker)
            await stream.push()
            pair.cut()
            await stream.push()
            await stream.push()
            pair.master.kill()
            await stream.push()
            assert stream.lost_calls == 2
        status = status_at(pair.url)
        assert (status.queued, status.accepted, status.unbalanced) == (stream.pushed, stream.pushed, 0)


async def test_a_master_that_becomes_a_replica_is_left() -> None:
    """A failover by hand: nobody dies, and the server that was the master refuses writes."""
    with WatchedPair() as pair:
        async with worker_at(pair.url) as worker:
            stream = Stream(worker)
            await stream.push()
            ask(pair.sentinel, "SENTINEL", "FAILOVER", MASTER)
            await stream.push_while(lambda: not pair.has_failed_over)
            # The Sentinel would do it some seconds later; until then two masters take writes.
            await stream.push()
            ask(pair.master, "REPLICAOF", "127.0.0.1", pair.replica.port)
            await stream.push()
        status = status_at(pair.url)
        assert (status.queued, status.accepted, status.unbalanced) == (stream.pushed, stream.pushed, 0)
        assert ask(pair.replica, "LLEN", KEYS.inbox(0)) == stream.pushed


def test_a_crawl_goes_on_at_a_replica_that_lags(
    worker: Start, ended: Callable[..., None], eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    """Case R2: pages that were acknowledged after replication broke are fetched again, and each page is stored once."""
    with WatchedPair() as pair, shop_crawl(worker, environ, pair.url) as crawl:
        eventually(lambda: crawl.done > 30, 60)
        pair.cut()
        before = crawl.done
        eventually(lambda: crawl.done > before + 30, 60)
        pair.master.kill()
        ended(*crawl.workers)
        assert crawl.all_say("Redis lost this session or its last moments")
        crawl.assert_complete()
