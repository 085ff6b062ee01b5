"""One Redis server: over TCP, a Unix socket and TLS, with accounts, half dead, and away in the middle of a crawl."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import EmbeddedRedis, RedisProgram, installed_redis
from bench.servers.process import free_port
from crawler.errors import ConfigError, FrontierDownError, FrontierError
from tests.certificates import Authority
from tests.exchanges import PATIENCE_S, Stream, converse, shop_crawl, status_at, worker_at
from tests.topologies import program_with_tls

Start = Callable[..., WorkerProcess]


@pytest.mark.every_redis
async def test_over_tcp(redis_url: str) -> None:
    await converse(redis_url)


@pytest.mark.parametrize("program", installed_redis(), ids=str)
async def test_over_a_unix_socket(program: RedisProgram) -> None:
    with EmbeddedRedis(program, options={"unixsocket": "redis.sock"}) as server:
        await converse(f"unix://{server.data_dir}/redis.sock")


# -- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_address(authority: Authority) -> Iterator[str]:
    port = str(free_port())
    with EmbeddedRedis(program_with_tls(), options={**authority.server_options("127.0.0.1"), "tls-port": port}):
        yield f"127.0.0.1:{port}"


async def test_over_tls(tls_address: str, authority: Authority) -> None:
    await converse(f"rediss://{tls_address}/1?ssl_ca_certs={authority.file}")


@pytest.mark.parametrize("check", ["", "&ssl_check_hostname=false"])
async def test_a_server_that_another_authority_vouches_for_is_refused(
    tls_address: str, tmp_path: Path, check: str
) -> None:
    stranger = Authority(tmp_path, "stranger")
    for url in (f"rediss://{tls_address}", f"rediss://{tls_address}?ssl_ca_certs={stranger.file}{check}"):
        with pytest.raises(
            FrontierDownError, match=f"Redis at {tls_address} can't be reached.*CERTIFICATE_VERIFY_FAILED"
        ):
            await converse(url)


async def test_a_certificate_for_another_host_is_refused(tls_address: str, authority: Authority) -> None:
    address = tls_address.replace("127.0.0.1", "localhost")
    with pytest.raises(FrontierDownError, match=r"CERTIFICATE_VERIFY_FAILED.*not valid for 'localhost'"):
        await converse(f"rediss://{address}?ssl_ca_certs={authority.file}")
    await converse(f"rediss://{address}/2?ssl_ca_certs={authority.file}&ssl_check_hostname=false")


async def test_a_client_shows_its_certificate(authority: Authority) -> None:
    certificate, key = authority.issue("client")
    port = str(free_port())
    url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority.file}"
    options = authority.server_options("127.0.0.1") | {"tls-port": port, "tls-auth-clients": "yes"}
    with EmbeddedRedis(program_with_tls(), options=options):
        await converse(f"{url}&ssl_certfile={certificate}&ssl_keyfile={key}")
        with pytest.raises(FrontierDownError, match=f"Redis at 127.0.0.1:{port} can't be reached"):
            await converse(url)


# -- accounts


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedRedis]:
    accounts = {
        "user worker": "on >right ~* +@all",
        "user reader": "on >right ~* +@read +@connection +eval +evalsha",
        "user stranger": "on >right ~other:* +@all",
    }
    with EmbeddedRedis(options=accounts) as server:
        yield server
        with Redis(port=server.port) as client:
            assert client.acl_log()


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        ({"REDIS_USERNAME": "worker", "REDIS_PASSWORD": "wrong"}, "invalid username-password pair"),
        ({"REDIS_USERNAME": "nobody", "REDIS_PASSWORD": "right"}, "invalid username-password pair"),
        ({"REDIS_USERNAME": "reader", "REDIS_PASSWORD": "right"}, "[Pp]ermission"),
        ({"REDIS_USERNAME": "stranger", "REDIS_PASSWORD": "right"}, "[Pp]ermission"),
    ],
)
async def test_an_account_that_is_refused_is_told_what_to_check(
    guarded: EmbeddedRedis, account: dict[str, str], reason: str
) -> None:
    told = f"refuses the account: .*{reason}.*Check REDIS_USERNAME and REDIS_PASSWORD"
    with pytest.raises(FrontierError, match=told) as caught:
        await converse(guarded.url, **account)
    assert not isinstance(caught.value, FrontierDownError), "waiting would not help"
    assert "right" not in str(caught.value)
    assert "wrong" not in str(caught.value)


async def test_the_account_may_stand_in_the_address(guarded: EmbeddedRedis) -> None:
    await converse(guarded.url.replace("//", "//worker:right@"), REDIS_USERNAME="reader", REDIS_PASSWORD="wrong")


# -- addresses of another kind


@pytest.mark.parametrize(
    ("scheme", "told"),
    [
        ("redis+cluster", "REDIS_URL: 127.0.0.1:{port} is not a node of a cluster: .*cluster support disabled"),
        ("redis+sentinel", "REDIS_URL: 127.0.0.1:{port} is not a Sentinel: .*unknown command"),
    ],
)
async def test_a_server_of_another_kind_is_named(redis_server: EmbeddedRedis, scheme: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told.format(port=redis_server.port)):
        await converse(f"{scheme}://127.0.0.1:{redis_server.port}/{'crawl' if 'sentinel' in scheme else ''}")


# -- Redis away


async def test_a_server_that_stands_still_is_away_and_gets_nothing_twice(eventually: Callable[..., None]) -> None:
    with EmbeddedRedis() as server:
        async with worker_at(f"{server.url}?socket_timeout=0.2") as worker:
            stream = Stream(worker)
            await stream.push()
            troubles: list[FrontierError | None] = []
            in_trouble = asyncio.Event()

            def note(error: FrontierError | None) -> None:
                troubles.append(error)
                in_trouble.set()

            worker.line.on_trouble = note
            os.kill(server.pid, signal.SIGSTOP)
            try:
                pushing = asyncio.create_task(stream.push())
                await asyncio.wait_for(in_trouble.wait(), PATIENCE_S)
                with pytest.raises(FrontierDownError, match=f"Redis at 127.0.0.1:{server.port} can't be reached"):
                    status_at(f"{server.url}?socket_timeout=0.2")
                assert not pushing.done()
            finally:
                os.kill(server.pid, signal.SIGCONT)
            await pushing
            assert isinstance(troubles[0], FrontierDownError)
            assert troubles[1:] == [None]
        status = status_at(server.url)
        assert (status.queued, status.accepted, status.unbalanced) == (stream.pushed, stream.pushed, 0)


def test_a_crawl_waits_for_redis_and_completes(
    worker: Start, ended: Callable[..., None], eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    """Case L16: Redis is killed in the middle of a crawl, and comes back."""
    with EmbeddedRedis() as server, shop_crawl(worker, environ, server.url) as crawl:
        eventually(lambda: crawl.done > 30, 60)
        server.kill()
        eventually(lambda: crawl.all_say("Waiting for it; nothing is lost"), 60)
        server.start()
        ended(*crawl.workers)
        assert crawl.all_say("answers again")
        crawl.assert_complete()


def test_a_spider_of_another_scheduler_needs_no_redis(tmp_path: Path, environ: dict[str, str]) -> None:
    """Case I11: in a project whose other spiders need one."""
    plain = tmp_path / "plain.py"
    plain.write_text(
        "import scrapy\n"
        "class Plain(scrapy.Spider):\n"
        "    name = 'plain'\n"
        "    start_urls = ['data:,hello']\n"
        "    custom_settings = {'SCHEDULER': 'scrapy.core.scheduler.Scheduler', 'STORAGE': False}\n"
        "    def parse(self, response):\n"
        "        yield {'text': response.text}\n"
    )
    nowhere = environ | {"REDIS_URL": f"redis://127.0.0.1:{free_port()}"}
    command = [sys.executable, "-m", "scrapy", "runspider", str(plain), "-o", "-:jsonlines"]
    done = subprocess.run(command, env=nowhere, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, '{"text": "hello"}\n'), done.stderr
