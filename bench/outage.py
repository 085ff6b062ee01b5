"""What a crawl does while its MongoDB is away, or slow: `python -m bench.outage killed`, `python -m bench.outage full`.

killed: mongod is killed (SIGKILL) again and again in the midst of a crawl, and started after a while. Does the crawl go
on, is every page there once in the end, and the spool empty?

full: mongod is killed until spool and buffer are at their limits, and then comes back so slow that they stay there.
Does the crawl keep to the pace of the drain, and do the workers' memories stay where they are?

The site answers each page late, so that the crawl lasts. Each second it is noted how many pages were acknowledged, what
is on the workers' disks, and how much memory they take; how late their event loops were, they say themselves.
"""

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families
from pymongo import MongoClient
from rich.console import Console
from rich.table import Table

from bench.crawl.track import SITE, Track
from bench.servers import EmbeddedMongo
from bench.servers.process import free_port
from bench.site import canonical_url, expected_pages
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys

DATABASE = "outage"
WORKERS = 2
#: How late the site answers; sixteen requests of each worker are under way at once.
LATE_S = 0.4
#: Nothing moves any more when no page was acknowledged for so long.
STUCK_S = 20.0
#: An event loop that is later than this is late.
LATE_LOOP_S = 0.1

console = Console(highlight=False, width=120)
_direct = build_opener(ProxyHandler({}))


@dataclass
class Moment:
    """What is seen of a crawl at one time."""

    at_s: float
    phase: str
    #: Pages, since the beginning: asked of the site, acknowledged in the frontier, stored in MongoDB.
    fetched: int
    done: int
    stored: int
    spool_bytes: int
    #: Of the worker that takes the most.
    memory_bytes: int


class Outage:
    """Hold a crawl and its MongoDB, and note what becomes of them."""

    def __init__(self, arguments: argparse.Namespace, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="seedbed-outage-")))
        self.spool, self.log = folder / "spool", folder / "workers.log"
        site = replace(SITE, products=arguments.pages * 12 // 13, page_bytes=arguments.page_bytes)
        self.track = stack.enter_context(Track(replace(site, slow_share=1.0, slow_s=LATE_S)))
        options = {"setParameter": {"enableTestCommands": True}}
        self.mongo = stack.enter_context(EmbeddedMongo(replica_set="rs0", options=options))
        self.expected = expected_pages(self.track.site.config)
        self.ports = [free_port() for _ in range(WORKERS)]
        self.began_s = time.monotonic()
        self.moments: list[Moment] = []
        self.phase = ""
        self.late: dict[str, Counter[str]] = {}
        settings = {
            "MONGO_URI": self.mongo.url,
            "MONGO_DATABASE": DATABASE,
            "STORE_SPOOL_DIR": str(self.spool),
            "STORE_SPOOL_BYTES": arguments.spool_mb * 1_000_000,
            "STORE_BUFFER_BYTES": arguments.buffer_mb * 1_000_000,
            "STORE_CLOSE_S": 120,
            "METRICS_HOST": "127.0.0.1",
            "EXTENSIONS": {"crawler.storage.Storage": 0, "crawler.metrics.Metrics": 0},
            "LOG_LEVEL": "INFO",
        }
        start = [self.track.site.config.start_url]
        self.workers = [
            self.track.start("ours_storing", start, self.log, **settings, METRICS_PORT=port) for port in self.ports
        ]
        stack.callback(self.end)

    def end(self) -> None:
        """End what still runs."""
        for worker in self.workers:
            worker.kill()
            worker.wait()

    @property
    def is_running(self) -> bool:
        """Tell whether any worker still works."""
        return any(worker.poll() is None for worker in self.workers)

    @property
    def done(self) -> int:
        """Return how many pages were acknowledged until now."""
        return self.moments[-1].done if self.moments else 0

    def watch(self, phase: str, until: Callable[[], bool]) -> None:
        """Look once a second until something is so, or the crawl is over."""
        self.phase, before = phase, self.loops()
        while self.is_running and not until():
            self.look()
            time.sleep(1)
        self.late[phase] = self.loops() - before

    def look(self) -> None:
        """Note how it is."""
        done = Controls(self.track.redis, Keys.of("bench"), "").status().done
        spooled = sum(path.stat().st_size for path in self.spool.rglob("*") if path.exists())
        memory = max((resident_bytes(worker) for worker in self.workers), default=0)
        at_s = time.monotonic() - self.began_s
        fetched = self.track.site.stats()["requests"]
        self.moments.append(Moment(at_s, self.phase, fetched, done, self.stored(), spooled, memory))

    def stored(self) -> int:
        """Return how many pages MongoDB has; as many as before where it does not answer."""
        if not self.mongo.running:
            return self.moments[-1].stored if self.moments else 0
        with MongoClient[dict[str, Any]](self.mongo.url) as client:
            return client[DATABASE]["raw_pages"].estimated_document_count()

    def slow_down(self, by_s: float) -> None:
        """Have MongoDB wait before each insert; 0: no longer."""
        data = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": int(by_s * 1000)}
        mode = {"mode": "alwaysOn", "data": data} if by_s else {"mode": "off"}
        with MongoClient[dict[str, Any]](self.mongo.url) as client:
            client.admin.command("configureFailPoint", "failCommand", **mode)

    def loops(self) -> Counter[str]:
        """Return how often the workers looked how late their event loops are, and how often they were late."""
        found = Counter[str]()
        for port in self.ports:
            with suppress(OSError):  # it has ended
                text = _direct.open(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
                for family in text_string_to_metric_families(text):
                    for sample in family.samples if family.name == "crawler_event_loop_lag_seconds" else ():
                        if sample.labels == {"le": str(LATE_LOOP_S)}:
                            found["in time"] += int(sample.value)
                        elif sample.name.endswith("_count"):
                            found["looks"] += int(sample.value)
        return found


def resident_bytes(worker: "subprocess.Popen[str]") -> int:
    """Return the memory of a process; 0 when it has ended."""
    try:
        text = Path(f"/proc/{worker.pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def killed(outage: Outage, arguments: argparse.Namespace) -> None:
    """Kill MongoDB in the midst of the crawl, at even distances."""
    for number in range(arguments.kills):
        moment = len(outage.expected) * (2 * number + 1) // (2 * arguments.kills + 1)
        outage.watch(f"there {number + 1}", lambda moment=moment: outage.done >= moment)  # type: ignore[misc]
        outage.mongo.kill()
        back_s = time.monotonic() + arguments.away_s
        outage.watch(f"away {number + 1}", lambda back_s=back_s: time.monotonic() > back_s)  # type: ignore[misc]
        outage.mongo.start()


def full(outage: Outage, arguments: argparse.Namespace) -> None:
    """Fill spool and buffer, then let MongoDB be back, and slow."""
    outage.watch("there", lambda: outage.done >= len(outage.expected) // 20)
    outage.mongo.kill()
    outage.watch("away, filling", lambda: is_stuck(outage))
    full_s = time.monotonic() + arguments.away_s
    outage.watch("away, full", lambda: time.monotonic() > full_s)
    outage.mongo.start()
    outage.slow_down(arguments.slow_s)
    slow_s = time.monotonic() + 4 * arguments.away_s
    outage.watch("slow", lambda: time.monotonic() > slow_s)
    outage.slow_down(0)


def is_stuck(outage: Outage) -> bool:
    """Tell whether no page was acknowledged lately."""
    lately = [moment.done for moment in outage.moments if moment.at_s > outage.moments[-1].at_s - STUCK_S]
    since = [moment.at_s for moment in outage.moments if moment.phase == outage.phase]
    return bool(since) and since[-1] - since[0] > STUCK_S and lately[0] == lately[-1]


def tell(outage: Outage) -> bool:
    """Print what was seen; tell whether all is as it should be."""
    heads = (
        "seconds",
        "fetched/s",
        "acknowledged/s",
        "stored/s",
        "spool, MB",
        "memory, MB",
        f"loop late {LATE_LOOP_S} s",
    )
    table = Table("MongoDB", *heads)
    for phase in dict.fromkeys(moment.phase for moment in outage.moments):
        seen = [moment for moment in outage.moments if moment.phase == phase]
        first, last = seen[0], seen[-1]
        took_s = max(last.at_s - first.at_s, 1)
        rates = [
            f"{grown / took_s:.0f}"
            for grown in (last.fetched - first.fetched, last.done - first.done, last.stored - first.stored)
        ]
        sizes = [[m.spool_bytes / 1e6 for m in seen], [m.memory_bytes / 1e6 for m in seen]]
        late = outage.late[phase]
        table.add_row(
            phase,
            f"{took_s:.0f}",
            *rates,
            *(f"{size[0]:.0f} to {size[-1]:.0f}" for size in sizes),
            f"{late['looks'] - late['in time']} of {late['looks']}",
        )
    console.print(table)
    with MongoClient[dict[str, Any]](outage.mongo.url) as client:
        database = client[DATABASE]
        items = Counter(canonical_url(item["url"]) for item in database["items"].find({}, {"url": 1}))
        pages = Counter(canonical_url(page["url"]) for page in database["raw_pages"].find({}, {"url": 1}))
    left = [path.name for path in outage.spool.rglob("*") if path.is_file()]
    failed = sum(worker.returncode != 0 for worker in outage.workers)
    is_exact = True
    for name, found in (("pages", pages), ("items", items)):
        lost, doubled = len(outage.expected - found.keys()), found.total() - len(found)
        is_exact &= not lost and not doubled
        console.print(f"{name}: {len(outage.expected):,} expected, {lost} lost, {doubled} twice")
    console.print(f"left in the spool: {', '.join(left) or 'nothing'}; workers that failed: {failed}")
    return is_exact and not left and not failed


def main() -> int:
    """Run one of the two; 0 when nothing is lost, doubled or left."""
    parser = argparse.ArgumentParser(prog="python -m bench.outage", description=__doc__)
    parser.add_argument("what", choices=["killed", "full"])
    parser.add_argument("--pages", type=int, default=20_000, help="of the site, about (%(default)s)")
    parser.add_argument("--page-bytes", type=int, default=0, help="size of a page (0: 4 KB)")
    parser.add_argument("--kills", type=int, default=5, help="how often MongoDB is killed (%(default)s)")
    parser.add_argument("--away-s", type=float, default=30, help="for how long it is away (%(default)s)")
    parser.add_argument("--slow-s", type=float, default=2, help="how long a slow MongoDB takes (%(default)s)")
    parser.add_argument("--spool-mb", type=int, default=1000, help="limit of each worker's spool (%(default)s)")
    parser.add_argument("--buffer-mb", type=int, default=64, help="limit of each worker's buffer (%(default)s)")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        outage = Outage(arguments, stack)
        (killed if arguments.what == "killed" else full)(outage, arguments)
        outage.watch("there, to the end", lambda: False)
        sound = tell(outage)
        if not sound:
            lines = outage.log.read_text(encoding="utf-8", errors="replace").splitlines()
            print(*(line for line in lines if "INFO" not in line and "[" in line), sep="\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
