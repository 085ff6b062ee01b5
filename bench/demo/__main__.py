"""Run the main job: servers, a site, two workers until the crawl is complete; then compare and sum up."""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from pymongo import MongoClient
from pymongo.database import Database
from rich.console import Console
from rich.table import Table

from bench.demo.watch import Display, Sight, Watcher
from bench.demo.worker import ROOT, WorkerProcess
from bench.servers import EmbeddedMongo, EmbeddedRedis, ServerError, find_mongo
from bench.site import SiteConfig, SiteProcess, canonical_url, expected_pages
from crawler.config import Config
from crawler.errors import SeedbedError
from crawler.frontier.client import Clients, translated
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys
from crawler.storage.itemtypes import RAW_PAGES

LOOK_EVERY_S = 0.2
#: Between two requests to one host of a site that is not ours, seconds.
POLITE_DELAY_S = "0.25"

console = Console(highlight=False)


@dataclass(frozen=True)
class Job:
    """Hold what is crawled."""

    spider: str
    url: str
    #: The spider's arguments.
    arguments: tuple[str, ...]
    #: The collection of its items.
    items: str
    #: None: nobody knows.
    expected: frozenset[str] | None


def main() -> int:
    """Run the demo; 0 when the crawl is complete and exact."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description=__doc__)
    parser.add_argument("--site", metavar="URL", help="crawl this site (default: the sample shop)")
    parser.add_argument("--products", type=int, default=1500, help="size of the sample shop (default: 1500)")
    parser.add_argument("--workers", type=int, default=2, help="how many workers share the work (default: 2)")
    parser.add_argument("--keep", action="store_true", help="keep the servers running at the end, until Ctrl-C")
    parser.add_argument("--data", type=Path, default=ROOT / ".run" / "demo", help="where data and logs go")
    arguments = parser.parse_args()
    try:
        with ExitStack() as stack:
            return _run(arguments, stack)
    except (SeedbedError, RuntimeError, ValueError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace, stack: ExitStack) -> int:
    data: Path = arguments.data
    if arguments.site and not (
        urlsplit(arguments.site).scheme in {"http", "https"} and urlsplit(arguments.site).hostname
    ):
        raise ValueError(f"--site {arguments.site}: an address such as https://docs.example.org/ is wanted")
    stack.enter_context(_alone(data))
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    environ = dict(os.environ) | _servers(data, stack)
    config = Config.from_environ(environ)
    job = _job(arguments, stack)
    if arguments.site:
        environ.setdefault("DOWNLOAD_DELAY", POLITE_DELAY_S)
    environ["CLOSE_WHEN_COMPLETE"] = "true"
    environ.setdefault("STORE_SPOOL_DIR", str((data / "spool").absolute()))

    if subprocess.run([sys.executable, "-m", "crawler.storage.setup"], env=environ, cwd=ROOT, check=False).returncode:
        return 1
    clients = stack.enter_context(Clients(config))
    mongo: MongoClient[dict[str, object]] = stack.enter_context(MongoClient(config.mongo_uri))
    database = mongo[config.mongo_database]
    keys = Keys.of(job.spider, config.frontier_namespace)
    watcher = Watcher(clients(keys.meta), keys, database, job.items)
    with translated(clients.where):
        before = watcher.look()
    if before.pages:
        console.print(f"The database {config.mongo_database} holds {before.pages:,} pages already: they are kept.")

    console.print(f"Crawling [bold]{job.url}[/] with {arguments.workers} workers; Ctrl-C stops them cleanly.")
    began = time.monotonic()
    workers = [
        WorkerProcess(f"worker {n}", job.spider, job.arguments, environ, data / f"worker-{n}.log")
        for n in range(1, arguments.workers + 1)
    ]
    with _stopped(workers):
        finished = _watch(watcher, workers, job)
    took_s = time.monotonic() - began

    # One that was killed is what the others are there for.
    failed = [worker for worker in workers if (worker.exit_code or 0) > 0]
    for worker in failed:
        print(f"demo: {worker.name} failed; the end of {worker.log}:\n{worker.complaints()}", file=sys.stderr)
    stored = {canonical_url(str(page["url"])) for page in database[RAW_PAGES].find({}, {"url": 1})}
    exact = job.expected is None or stored == job.expected
    sight = watcher.look()
    _sum_up(sight, workers, job, stored, took_s)
    if finished and not failed and not stored:
        print(f"demo: nothing of {job.url} was stored. {_why(clients, keys, data)}", file=sys.stderr)
    _export(database, job, data)
    if arguments.keep:
        _keep(environ)
    # Somebody who stops the crawl of a site of theirs has seen what they wanted.
    complete = bool(stored) and sight.status.state == "complete" if finished else job.expected is None
    return 0 if complete and not failed and exact else 1


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Keep the folder from another demo, which would begin by removing what the servers of this one write there."""
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.with_name(f"{data.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerError(
                f"another demo works in {data}: end it (Ctrl-C), or run python -m bench.demo --data FOLDER"
            ) from None
        yield


def _servers(data: Path, stack: ExitStack) -> dict[str, str]:
    """Start what the environment does not name."""
    environ = {}
    if not (os.environ.get("REDIS_URL") or os.environ.get("REDIS_URL_FILE")):
        redis = stack.enter_context(EmbeddedRedis(config_file=ROOT / "redis.conf", data_dir=data / "redis"))
        dedup = "with Bloom filters" if redis.has_bloom else "Bloom filters from bitmaps"
        console.print(f"Redis {redis.version} ({dedup}) at {redis.url}")
        environ["REDIS_URL"] = redis.url
    if not (os.environ.get("MONGO_URI") or os.environ.get("MONGO_URI_FILE")):
        program = find_mongo()
        config = ROOT / "mongod.conf" if program.is_mongod else None
        mongo = stack.enter_context(EmbeddedMongo(program, config_file=config, data_dir=data / "mongo"))
        console.print(f"MongoDB: {program} at {mongo.url}")
        environ["MONGO_URI"] = mongo.url
    return environ


def _job(arguments: argparse.Namespace, stack: ExitStack) -> Job:
    if arguments.site:
        return Job("site", arguments.site, ("-a", f"url={arguments.site}"), "pages", None)
    site = stack.enter_context(SiteProcess(SiteConfig(port=0, products=arguments.products)))
    url, hosts = site.config.start_url, ",".join(site.config.host_names)
    where = ("-a", f"url={url}", "-a", f"allowed_domains={hosts}")
    return Job("shop", url, where, "products", frozenset(expected_pages(site.config)))


@contextmanager
def _stopped(workers: Sequence[WorkerProcess]) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()


def _watch(watcher: Watcher, workers: Sequence[WorkerProcess], job: Job) -> bool:
    """Show the crawl until all workers have ended; False when the person stopped it."""
    try:
        with Display(console, len(job.expected) if job.expected else None) as display:
            while running := sum(worker.exit_code is None for worker in workers):
                display.show(watcher.look(), running)
                time.sleep(LOOK_EVERY_S)
            display.show(watcher.look(), 0)
    except KeyboardInterrupt:
        console.print("Stopping: what is under way is finished and stored, the rest stays in the queue.")
        return False
    return True


def _sum_up(sight: Sight, workers: Sequence[WorkerProcess], job: Job, stored: set[str], took_s: float) -> None:
    table = Table(title="What was done", title_justify="left", show_header=False)
    table.add_row("pages stored", f"{sight.pages:,}")
    if job.expected is not None:
        missing, extra = len(job.expected - stored), len(stored - job.expected)
        verdict = "[green]exactly these" if not (missing or extra) else f"[red]{missing:,} missing, {extra:,} too many"
        table.add_row("pages that the site says a crawl must store", f"{len(job.expected):,}: {verdict}")
    table.add_row("items stored", f"{sight.items:,}")
    for worker in workers:
        killed = (worker.exit_code or 0) < 0
        pages = "unknown, as it was killed" if killed else f"{worker.stat('storage/pages_stored'):,}"
        table.add_row(f"pages by {worker.name}", pages)
    table.add_row("time", f"{took_s:.1f} s ({sight.pages / took_s:,.0f} pages/s, the workers' start included)")
    status = sight.status
    table.add_row(
        "the frontier's books",
        f"{status.accepted:,} accepted = {status.done:,} done + {status.queued:,} queued + {status.leased:,} in hand "
        f"+ {status.dead:,} dead + {status.removed:,} removed",
    )
    console.print(table)


def _why(clients: Clients, keys: Keys, data: Path) -> str:
    """Say why a crawl that ended found nothing."""
    reasons = [dead.reason for dead in islice(Controls(clients(keys.meta), keys, clients.where).dead(), 3)]
    if reasons:
        return "Set aside: " + "; ".join(reasons)
    return f"Does its robots.txt let it be crawled? The workers' logs are {data}/worker-*.log"


def _export(database: Database[dict[str, object]], job: Job, data: Path) -> None:
    path = data / f"{job.items}.jsonl"
    with path.open("wb") as file:
        for item in database[job.items].find({}, {"_id": 0, "_raw_id": 0}):
            file.write(msgspec.json.encode(item, enc_hook=str) + b"\n")
    console.print(f"Look at the items:   less {path}\nWhat the workers say: less {data / 'worker-1.log'}")
    console.print("Next: `make demo SITE=https://…` crawls a site of yours; `make up` starts the whole deployment.")


def _keep(environ: dict[str, str]) -> None:
    console.print(
        "Still running, until Ctrl-C. In another terminal, in this folder:\n"
        f"  export REDIS_URL={environ['REDIS_URL']} MONGO_URI={environ['MONGO_URI']}\n"
        f"  {Path(sys.executable).parent / 'scrapy'} frontier status",
        soft_wrap=True,
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(main())
