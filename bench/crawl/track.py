"""The site, the Redis and the clock of the crawls that are compared: each crawl finds all three as the last one did."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

from redis import Redis

from bench.frame import REDIS_CONF, ROOT, Run
from bench.servers import EmbeddedRedis
from bench.site import SiteConfig, SiteProcess
from bench.swarm import percentile

#: The share of the pages that comes first and is not counted: everything is imported, connected and warm then.
WARM_UP = 0.15

#: Twenty links a page, spelled as real ones are (97 of 100 canonically); no page fails or is late by intent.
SITE = SiteConfig(port=0, links_per_page=20, spelling_share=0.03, failing_share=0.0, slow_share=0.0)

#: (monotonic seconds, seconds of work) of each page of a worker.
Pages = Sequence[tuple[float, float]]


class Crawled(NamedTuple):
    """Hold what one worker noted."""

    pages: Pages
    #: How much later than due timers of its event loop fired.
    lags_s: Sequence[float]


class Track:
    """Crawl a sample site of *config* again and again, on a Redis that nobody else uses."""

    def __init__(self, config: SiteConfig = SITE) -> None:
        self.site = SiteProcess(config)
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.site)
            self.server = stack.enter_context(EmbeddedRedis(config_file=REDIS_CONF))
            self.redis: Any = stack.enter_context(Redis.from_url(self.server.url))
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exit.close()

    def crawl(self, peer: str, **settings: Any) -> Run:
        """Crawl the site with one worker, and return its figures; *settings* go before those of the peer."""
        self.redis.flushall()
        before = self.redis.info()
        pages, lags_s = self.workers(peer, 1, **settings)[0]
        after = self.redis.info()
        first = int(WARM_UP * len(pages))
        (began_s, had_worked_s), (ended_s, worked_s) = pages[first], pages[-1]
        counted = len(pages) - 1 - first
        return {
            "pages_per_s": counted / (ended_s - began_s),
            "cpu_ms_per_page": (worked_s - had_worked_s) / counted * 1000,
            # Less the one that asked for these figures.
            "loop_lag_p99_ms": 1000 * percentile(sorted(lags_s[int(WARM_UP * len(lags_s)) :]), 99),
            "round_trips_per_page": (_grown("total_reads_processed", before, after) - 1) / len(pages),
            "redis_cpu_ms_per_page": redis_cpu_s(before, after) / len(pages) * 1000,
        }

    def workers(self, peer: str, number: int, **settings: Any) -> list[Crawled]:
        """Let *number* workers share a crawl, and return what each noted. Raises RuntimeError when one fails."""
        processes = [self.start(peer, [self.site.config.start_url], **settings) for _ in range(number)]
        answers = [process.communicate() for process in processes]
        for process, (_, errors) in zip(processes, answers, strict=True):
            if process.returncode:
                raise RuntimeError(f"the crawl of {peer} failed: {errors[-2000:]}")
        return [Crawled(**json.loads(answer)) for answer, _ in answers]

    def start(
        self, peer: str, urls: Sequence[str], log: Path | None = None, **settings: Any
    ) -> "subprocess.Popen[str]":
        """Start a worker; what it says goes to *log*, or to pipes."""
        more = json.dumps({"REDIS_URL": self.server.url} | settings)
        command = [sys.executable, "-m", "bench.crawl.one", peer, more, *urls]
        if log is None:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        with log.open("a") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, text=True, cwd=ROOT)


def cpu_s(pid: int) -> float:
    """Return how long a process has worked, seconds; 0 where the system does not say it in /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def redis_cpu_s(before: dict[str, Any], after: dict[str, Any]) -> float:
    """Return how long Redis has worked between two INFOs, seconds."""
    return _grown("used_cpu_user", before, after) + _grown("used_cpu_sys", before, after)


def _grown(name: str, before: dict[str, Any], after: dict[str, Any]) -> float:
    return float(after[name]) - float(before[name])
