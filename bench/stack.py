"""Load the deployment that runs in containers (`make up`): `python -m bench.stack` crawls the sample site with more and
more workers of its image, beside those that work for their owner, and notes in Grafana when it did.

The crawl has a namespace of its own, so nobody else's queue is touched; its pages stay in the deployment's MongoDB.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.request import ProxyHandler, Request, build_opener

from rich.console import Console

from bench.frame import ROOT, Curve, Figure, Figures, Part
from bench.report import report
from bench.results import assemble, conditions, keep
from bench.tables import tables

SPIDER = "site"
#: Of the crawl's keys.
NAMESPACE = "bench"
WORKERS = (1, 2, 4)
#: Of the sample site: some 20,000 pages.
PRODUCTS = 20_000
TIMEOUT_S = 900
#: Looks at the frontier over which pages are counted, at least.
LOOKS = 5
DASHBOARD = "seedbed-load-test"

console = Console(highlight=False)
_direct = build_opener(ProxyHandler({}))

#: Runs in a container beside the workers, as nobody outside can reach Redis.
_WATCH = """
import json, time
from crawler.config import Config
from crawler.frontier.client import Clients
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
config = Config.from_environ()
keys = Keys.of("site", config.frontier_namespace)
with Clients(config) as clients:
    controls = Controls(clients(keys.meta), keys, clients.where)
    begun = over = False
    while not over:
        status = controls.status()
        print(json.dumps([status.now_ms, status.done, status.queued, len(status.workers)]), flush=True)
        begun = begun or bool(status.workers)
        over = begun and status.state == "complete" and not status.workers
        time.sleep(0.5)
"""


class Look(NamedTuple):
    """Hold what the frontier said at one moment."""

    now_ms: int
    done: int
    queued: int
    workers: int


def main() -> int:
    """Run the load test."""
    parser = argparse.ArgumentParser(prog="python -m bench.stack", description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS), metavar="N", help="numbers to try")
    parser.add_argument("--products", type=int, default=PRODUCTS, help="size of the sample site (%(default)s)")
    arguments = parser.parse_args()
    about = conditions(quick=False)
    began_s = time.time()
    figures: Figures = {}
    try:
        _compose("--profile", "bench", "up", "--detach", "--wait", "site", SITE_PRODUCTS=str(arguments.products))
        for number in arguments.workers:
            console.print(f"{number} workers …")
            figures[f"workers_{number}.pages_per_s"] = Figure.of([_crawl(number)])
    except (RuntimeError, FileNotFoundError) as error:
        print(f"bench.stack: {error}", file=sys.stderr)
        return 1
    finally:
        ended_s = time.time()
    text = ", ".join(f"{name.split('.')[0]}: {figure.value:.0f} pages/s" for name, figure in figures.items())
    notes = _annotate(began_s, ended_s, text)
    results = assemble(about | {"took_s": round(ended_s - began_s), "notes": notes}, {PART.name: figures})
    for shown in (*tables(PART, figures), *notes):
        console.print(shown)
    place = keep(results, report(results, {PART.name: PART}))
    console.print(f"\nReport: {place / 'report.html'}")
    return 0


def _crawl(number: int) -> float:
    """Let *number* workers crawl the sample site; return their pages a second while all of them work."""
    run = ("run", "--rm", "--no-deps", "-e", f"FRONTIER_NAMESPACE={NAMESPACE}", "-e", "CLOSE_WHEN_COMPLETE=true")
    for _ in range(number):
        # With the service's own name among its names, it is scraped like any worker.
        _compose(*run, "--detach", "--use-aliases", "worker", "scrapy", "crawl", SPIDER, "-a", "url=http://site/")
    lines = _compose(*run, "-T", "worker", "python", "-", stdin=_WATCH, timeout_s=TIMEOUT_S).splitlines()
    looks = [Look(*json.loads(line)) for line in lines]
    counted = [look for look in looks if look.workers == number and look.done and look.queued]
    if len(counted) < LOOKS:
        raise RuntimeError(f"the crawl of {number} workers was over too soon: give it more --products")
    first, last = counted[0], counted[-1]
    return (last.done - first.done) / (last.now_ms - first.now_ms) * 1000


def _compose(*arguments: str, stdin: str = "", timeout_s: float = 300, **environment: str) -> str:
    """Run Docker Compose and return what it printed. Raises RuntimeError with its words when it fails."""
    try:
        done = subprocess.run(
            ["docker", "compose", *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"docker compose {arguments[0]} was not done after {timeout_s:.0f} s") from None
    if done.returncode:
        raise RuntimeError(f"docker compose {' '.join(arguments[:2])}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def _annotate(began_s: float, ended_s: float, text: str) -> list[str]:
    """Note the load test in Grafana; return where to look, or why it could not be noted."""
    try:
        address = _compose("port", "grafana", "3000").strip()
        password = Path(os.environ.get("SECRETS_DIR", ROOT / "secrets"), "grafana_admin").read_text(encoding="utf-8")
        login = base64.b64encode(f"admin:{password.strip()}".encode()).decode()
        window = {"time": int(1000 * began_s), "timeEnd": int(1000 * ended_s)}
        request = Request(
            f"http://{address}/api/annotations",
            json.dumps({**window, "tags": ["bench"], "text": text}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Basic {login}"},
        )
        _direct.open(request, timeout=10).close()
    except (RuntimeError, OSError) as error:
        return [f"The load test could not be noted in Grafana: {error}"]
    return [f"Dashboard: http://{address}/d/{DASHBOARD}?from={window['time']}&to={window['timeEnd']}"]


PART = Part(
    "stack",
    "The deployment",
    """Workers of the deployment's image crawl the sample site of its compose file with the spider `site`, pages and
    items into its MongoDB. Counted is the time in which all of them work and there is work for them, by the frontier's
    own books and clock.""",
    lambda _: {},
    {"pages_per_s": "pages a second, all workers together"},
    [Curve("Pages a second by workers", "workers", {"pages a second": "workers_{}.pages_per_s"})],
)

if __name__ == "__main__":
    sys.exit(main())
