"""One crawl in containers, through everything that may happen to it, stores exactly what it must."""

import re
from typing import Any

import pytest

from bench.site import canonical_url, expected_pages
from tests.stack.stack import SITE, Stack, until

pytestmark = pytest.mark.stack

#: Slow enough that all of it happens in the middle of the crawl: 15 pages a second.
DELAY_S = 0.2
ROUNDS = 3


def test_a_crawl_that_is_scaled_killed_and_restarted_is_complete(stack: Stack) -> None:
    """Scaling up and down, field cases L2 and L12, and a Redis that is killed."""
    refused = refusals(stack)
    for host in SITE.host_names:
        delay(stack, host, str(DELAY_S))
    stack.make("seed", "SPIDER=site", f"URL={SITE.start_url}")
    until(lambda: stack.frontier("site")["done"] > 10)

    stack.compose("scale", "worker=4")
    until(lambda: stack.targets()["worker"] == ["up"] * 4)
    until(lambda: pages_by_worker(stack) >= 4)

    four = worker_ids(stack)
    stack.make("up")
    assert worker_ids(stack) == four, "`make up` is to leave running workers alone, and as many as there are"

    stack.run("docker", "kill", "--signal", "KILL", four[0])
    for _ in range(ROUNDS):
        stack.run("docker", "rm", "--force", worker_ids(stack)[-1])
        stack.compose("scale", "--no-deps", "worker=4")

    assert refusals(stack) == refused
    before = stack.frontier("site")
    stack.compose("kill", "--signal", "KILL", "redis")
    stack.compose("start", "redis")
    until(lambda: stack.frontier("site")["done"] > before["done"])

    stack.make("scale", "N=1")
    until(lambda: stack.targets()["worker"] == ["up"])
    status = stack.frontier("site")
    assert status["queued"] > 0, "the crawl was over too soon to tell anything"
    assert books(status) == 0

    for host in SITE.host_names:
        delay(stack, host, "default")
    until(lambda: is_over(stack.frontier("site")), timeout_s=120)
    status = stack.frontier("site")
    assert books(status) == 0
    assert status["dead"] == 0
    stored = stack.mongo("""
print(json.dumps([page["final_url"] for page in worker.crawl.raw_pages.find({"status": 200}, {"final_url": 1})]))
""")
    assert {canonical_url(url) for url in stored} == expected_pages(SITE)
    # Nothing that a worker or the exporter wanted, nor what Redis read from its own file when it came back.
    assert set(refusals(stack).values()) == {0}


def test_a_seed_can_not_make_a_worker_read_from_the_inner_networks(stack: Stack) -> None:
    before = stack.frontier("site")
    stack.make("seed", "SPIDER=site", "URL=http://exporter:9410/metrics")
    until(lambda: is_over(stack.frontier("site")))
    after = stack.frontier("site")
    assert after["accepted"] > before["accepted"]
    stored = stack.mongo('print(json.dumps(worker.crawl.raw_pages.count_documents({"url": {"$regex": "exporter"}})))')
    assert stored == 0


def delay(stack: Stack, host: str, seconds: str) -> None:
    stack.compose("exec", "-T", "worker", "scrapy", "frontier", "delay", "site", host, seconds)


def worker_ids(stack: Stack) -> list[str]:
    return [container["Id"] for container in stack.containers("worker")]


def pages_by_worker(stack: Stack) -> int:
    """Count the workers that have crawled pages, by their own account."""
    pages = stack.by_instance('crawler_pages_total{spider="site"}')
    return sum(count > 0 for count in pages.values())


def books(status: dict[str, Any]) -> int:
    found = sum(status[place] for place in ("queued", "leased", "done", "dead", "removed"))
    return int(status["accepted"] - found)


def is_over(status: dict[str, Any]) -> bool:
    return not (status["queued"] or status["leased"] or status["starting"])


def refusals(stack: Stack) -> dict[str, int]:
    """Give how often Redis has refused a command, a key or a sign-in since it started."""
    info = stack.redis("exporter", "INFO", "stats")
    return {kind: int(count) for kind, count in re.findall(r"acl_access_denied_(\w+):(\d+)", info)}
