"""On a Redis Cluster: a spider lives on one node, and goes with its slot when that moves or the node dies."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import RedisProgram, installed_redis
from crawler.errors import FrontierError
from crawler.frontier.keys import SPIDERS, Keys
from crawler.frontier.messages import START
from deploy.init import DRAWN, USERS, redis_acl
from exporter.__main__ import exporting
from tests.certificates import Authority
from tests.exchanges import KEYS, PATIENCE_S, Stream, config_of, converse, shop_crawl, status_at, worker_at
from tests.fleet import link
from tests.topologies import EmbeddedCluster, ask, program_with_tls

Start = Callable[..., WorkerProcess]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture
def empty(cluster: EmbeddedCluster) -> EmbeddedCluster:
    for node in cluster.masters:
        ask(node, "FLUSHALL")
    return cluster


@pytest.mark.parametrize("program", installed_redis(), ids=str)
async def test_on_every_version(program: RedisProgram) -> None:
    """Case R1."""
    with EmbeddedCluster(program) as cluster:
        await converse(cluster.url)
        # Everything of the spider is on one node, and the list of the spiders is on another.
        assert cluster.owner(KEYS.meta) is not cluster.owner(SPIDERS)
        assert ask(cluster.owner(SPIDERS), "KEYS", "*") == [SPIDERS]


async def test_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with EmbeddedCluster(program_with_tls(), tls=authority.server_options("127.0.0.1")) as cluster:
        await converse(f"{cluster.url}?ssl_ca_certs={authority.file}")


async def test_one_node_that_answers_is_enough(empty: EmbeddedCluster) -> None:
    other = next(node for node in empty.masters if node is not empty.owner(KEYS.meta))
    await converse(f"redis+cluster://127.0.0.1:1,127.0.0.1:{other.port}/0?socket_timeout=5&health_check_interval=1")


async def test_a_node_that_is_taken_for_a_single_server_says_what_to_write(empty: EmbeddedCluster) -> None:
    other = next(node for node in empty.masters if node is not empty.owner(KEYS.meta))
    with pytest.raises(FrontierError, match=f"127.0.0.1:{other.port} is a node of a cluster.*redis\\+cluster://"):
        await converse(other.url)


async def test_the_deployments_accounts_need_one_command_more(empty: EmbeddedCluster) -> None:
    accounts = redis_acl(USERS.read_text(), dict.fromkeys(DRAWN, "secret")).splitlines()
    for name in ("worker", "exporter"):
        [rules] = [line.split()[2:] for line in accounts if line.startswith(f"user {name} ")]
        for node in empty.masters:
            ask(node, "ACL", "SETUSER", name, "reset", *rules)
    account = {"REDIS_USERNAME": "worker", "REDIS_PASSWORD": "secret"}
    with pytest.raises(
        FrontierError, match=r"a node of a cluster, refuses the account: .*cluster\|slots.*REDIS_USERNAME"
    ):
        await converse(empty.url, **account)
    for node in empty.masters:
        ask(node, "ACL", "SETUSER", "worker", "+cluster|slots")
        ask(node, "ACL", "SETUSER", "exporter", "+cluster|slots")
    await converse(empty.url, **account)
    with exporting(
        config_of(empty.url, **account | {"REDIS_USERNAME": "exporter"}, MONGO_URI="mongodb://127.0.0.1:1")
    ) as exporter:
        exporter.metrics()
    assert set(exporter.failures) == {"mongo"}


@pytest.mark.parametrize("program", installed_redis(), ids=str)
async def test_a_slot_that_moves_key_by_key(program: RedisProgram) -> None:
    """While some keys are here and some are there, no script runs, not even in part; then all go on there."""
    with EmbeddedCluster(program) as cluster:
        async with worker_at(cluster.url) as worker:
            await worker.exchange([link("http://start.example/", kind=START)])
            stream = Stream(worker)
            await stream.push()
            waits = asyncio.Event()
            worker.line.on_trouble = lambda error: waits.set() if error else None
            target = next(node for node in cluster.masters if node is not cluster.owner(KEYS.meta))
            source = cluster.begin_to_move(KEYS.meta, target)
            ask(source, "MIGRATE", "127.0.0.1", target.port, KEYS.inbox(0), 0, 5000)
            pushing = asyncio.create_task(stream.push())
            await asyncio.wait_for(waits.wait(), PATIENCE_S)
            assert not pushing.done()
            cluster.end_move(KEYS.meta, source, target)
            await pushing
        status = status_at(cluster.url)
        assert (status.queued, status.accepted, status.unbalanced) == (1 + stream.pushed, 1 + stream.pushed, 0)
        assert ask(target, "LLEN", KEYS.inbox(0)) == 1 + stream.pushed


async def test_a_replica_takes_over() -> None:
    with EmbeddedCluster(replicas=3) as cluster:
        owner = cluster.owner(KEYS.meta)
        # The only node that is named is the one that dies: the others are known from it.
        async with worker_at(f"redis+cluster://127.0.0.1:{owner.port}") as worker:
            stream = Stream(worker)
            await stream.push_while(lambda: stream.pushed < 100)
            owner.kill()
            await stream.push_while(lambda: cluster.owner(KEYS.meta) is owner)
            await stream.push()
        status = status_at(cluster.url)
        assert (status.queued, status.accepted, status.unbalanced) == (stream.pushed, stream.pushed, 0)


def test_a_crawl_survives_the_node_that_it_lives_on_and_all_can_look(
    worker: Start, ended: Callable[..., None], eventually: Callable[..., None], environ: dict[str, str]
) -> None:
    with EmbeddedCluster(replicas=3) as cluster:
        with shop_crawl(worker, environ, cluster.url) as crawl:
            eventually(lambda: crawl.done > 30, 60)
            cluster.owner(Keys.of("shop").meta).kill()
            ended(*crawl.workers)
            crawl.assert_complete()
        environ["REDIS_URL"] = cluster.url
        assert scrapy(environ, "seed", "site", "http://127.0.0.1:1/").startswith("1 accepted")
        assert cluster.owner(Keys.of("shop").meta) is not cluster.owner(Keys.of("site").meta)
        assert [line.split()[0] for line in scrapy(environ, "frontier", "status").splitlines()[1:]] == ["shop", "site"]
        with exporting(config_of(cluster.url, MONGO_URI=environ["MONGO_URI"])) as exporter:
            metrics = exporter.metrics().body.decode()
        assert exporter.failures == {}
        assert 'crawler_frontier_complete{spider="shop"} 1' in metrics
        assert 'crawler_frontier_accepted_total{spider="site"} 1' in metrics


def scrapy(environ: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "scrapy", *arguments]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
