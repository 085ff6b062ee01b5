"""What goes wrong in the running deployment is told: the right alert, of the right thing, and until it is over.

The rules are the deployment's, with their durations divided (watch.py). One crawl, slow enough to last, goes through
all of it, one fault after the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.stack.stack import ROOT, SITE, Stack, until
from tests.stack.watch import PATIENCE_S, Watch, faster_rules, read, watching, without_durations

pytestmark = pytest.mark.stack

#: Of each host: three pages a second.
DELAY_S = 1

#: The process in a worker's container that crawls: the first one there only passes on signals.
SIGNAL = "kill -{} $(cat /proc/1/task/1/children)"

#: A filter for a thousand links, of which half of the new ones may be dropped, and that many links in it.
SMALLER_FILTER = """
redis.call('DEL', KEYS[1])
for i = 1, 1000 do redis.call('BF.INSERT', KEYS[1], 'CAPACITY', 1000, 'ERROR', 0.5, 'ITEMS', i) end
"""


@pytest.fixture(scope="module")
def watch(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """Give the eyes on a crawl that is well."""
    with slow_crawl(stack), watching(stack, tmp_path_factory.mktemp("watch")) as watch:
        until(lambda: stack.frontier("site")["queued"] > 50)
        until(lambda: not watch.told("active"), PATIENCE_S, watch.shown)
        yield watch


@contextmanager
def slow_crawl(stack: Stack) -> Iterator[None]:
    """Have the sample site crawled; afterwards nothing is left of it but stored pages."""
    for host in SITE.host_names:
        frontier(stack, "delay", "site", host, str(DELAY_S))
    stack.make("seed", "SPIDER=site", f"URL={SITE.start_url}")
    try:
        yield
    finally:
        frontier(stack, "pause", "site")
        until(lambda: stack.frontier("site")["leased"] == 0)
        frontier(stack, "clear", "site", "--forget")
        frontier(stack, "resume", "site")
        for host in SITE.host_names:
            frontier(stack, "delay", "site", host, "default")


def frontier(stack: Stack, *arguments: str) -> None:
    stack.compose("exec", "-T", "worker", "scrapy", "frontier", *arguments)


def alive(stack: Stack) -> int:
    found = stack.prometheus('query?query=spider:crawler_workers_alive:sum{spider="site"}')["result"]
    return int(found[0]["value"][1]) if found else 0


@pytest.mark.parametrize("name", ["alerts.yml", "recording.yml"])
def test_the_rules_differ_from_the_deployed_ones_by_their_durations_alone(name: str) -> None:
    deployed = read(ROOT / "prometheus/rules" / name)
    assert without_durations(faster_rules(deployed)) == without_durations(deployed)
    assert faster_rules(deployed) != deployed


def test_a_worker_that_freezes(stack: Stack, watch: Watch) -> None:
    stack.compose("exec", "-T", "--index", "2", "worker", "sh", "-c", SIGNAL.format("STOP"))
    watch.fires("WorkerLost", "A worker of site died or froze", spider="site")
    assert watch.told("active") == {"WorkerLost"}
    stack.compose("exec", "-T", "--index", "2", "worker", "sh", "-c", SIGNAL.format("CONT"))
    until(lambda: alive(stack) == 2)


def test_no_worker_is_left(stack: Stack, watch: Watch) -> None:
    stack.compose("kill", "--signal", "KILL", "worker")
    watch.fires("NoWorkers", "Nobody works on site", spider="site")
    watch.suppresses("WorkerLost")
    assert watch.told("active") == {"NoWorkers"}
    stack.compose("start", "worker")
    watch.clears("NoWorkers")


def test_books_and_a_filter_that_were_changed_by_hand(stack: Stack, watch: Watch) -> None:
    """Field case D2, for the filter."""
    # The filter is that of a spider whose queue is empty, as nobody runs it here.
    settings = ("-e", "DEDUP_CAPACITY=1000", "-e", "DEDUP_ERROR_RATE=0.01")
    one_off = ("run", "--rm", "--no-deps", "-T", *settings, "worker")
    stack.compose(*one_off, "scrapy", "seed", "shop", f"http://{SITE.host_names[1]}/")
    frontier(stack, "clear", "shop")
    stack.redis("worker", "EVAL", SMALLER_FILTER, "1", "{shop}:seen")
    stack.redis("worker", "HINCRBY", "{site}:meta", "accepted", "3")
    watch.fires("BooksUnbalanced", "The books of site do not balance", spider="site")
    [alert] = watch.firing("BooksUnbalanced")
    assert alert["annotations"]["description"].startswith("3 accepted seeds are neither queued")
    watch.fires("FilterOverBudget", "The filter of shop drops more new links than it may", spider="shop")
    assert watch.told("active") <= {"BooksUnbalanced", "FilterOverBudget", "WorkerLost"}

    stack.redis("worker", "HINCRBY", "{site}:meta", "accepted", "-3")
    frontier(stack, "clear", "shop", "--forget")
    # WorkerLost has been told since one was lost for the last time.
    watch.clears("BooksUnbalanced", "FilterOverBudget", "WorkerLost")


def test_mongodb_is_away(stack: Stack, watch: Watch) -> None:
    stack.compose("stop", "mongo")
    watch.fires("MongoDown", "MongoDB does not answer")
    watch.suppresses("CollectorFailing")
    assert watch.told("active") == {"MongoDown"}
    stack.compose("start", "mongo")
    # So quick a watch may see that the server answers before it is a primary, and tell.
    until(lambda: set(stack.by_instance("crawler_mongo_primary").values()) == {1})
    watch.clears("MongoDown", "CollectorFailing", "MongoNoPrimary")


def test_redis_is_full(stack: Stack, watch: Watch) -> None:
    # A string of 512 MB: as much as there is for everything.
    stack.redis("worker", "BITFIELD", "{ballast}:all", "SET", "u1", str((4 << 30) - 1), "0")
    watch.fires("RedisRefusesWrites", "Redis is full")
    assert watch.told("active") == {"RedisRefusesWrites"}
    stack.redis("worker", "UNLINK", "{ballast}:all")
    watch.clears("RedisRefusesWrites", "RedisFillingUp")


def test_redis_is_away(stack: Stack, watch: Watch) -> None:
    """Field case M2: the monitoring is there, and says so."""
    stack.compose("stop", "redis")
    watch.fires("RedisDown", "Redis does not answer")
    watch.suppresses("CollectorFailing")
    assert watch.told("active") == {"RedisDown"}
    stack.compose("start", "redis")
    until(lambda: alive(stack) == 2)
    watch.clears("RedisDown", "CollectorFailing")
    # Nobody was heard of meanwhile, but nobody was lost.
    assert not stack.prometheus('query?query=present_over_time(ALERTS{alertname="WorkerLost"}[30s])')["result"]


def test_somebody_was_called(watch: Watch) -> None:
    """Of what needs a person at once, of its end, and of nothing that follows from something bigger."""
    pages = {"NoWorkers", "BooksUnbalanced", "MongoDown", "RedisRefusesWrites", "RedisDown"}
    tickets = {"WorkerLost", "FilterOverBudget"}
    wanted = {
        (receiver, status, alert)
        for receiver, alerts in (("page", pages), ("shown", tickets))
        for status in ("firing", "resolved")
        for alert in alerts
    } | {("watchdog", "firing", "Watchdog")}
    until(lambda: wanted <= watch.calls(), PATIENCE_S, lambda: str(watch.calls()))
    assert "CollectorFailing" not in {alert for _, _, alert in watch.calls()}
