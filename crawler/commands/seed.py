"""`scrapy seed`: put seeds into a spider's frontier, and say what became of each."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

from scrapy import Request, Spider
from scrapy.exceptions import UsageError

from crawler import seeds
from crawler.command import ProjectCommand
from crawler.commands.loading import Loaded
from crawler.config import Config
from crawler.errors import SeedbedError, SeedError
from crawler.frontier.client import AsyncClients
from crawler.frontier.frontier import Frontier
from crawler.frontier.keys import Keys
from crawler.frontier.messages import FILTERED, UNFILTERED, Link
from crawler.frontier.rules import Rules
from crawler.start_urls import parse_start

#: Links that go to Redis in one call.
BATCH = 512
#: How long signing off may take.
LEAVE_S = 3


@dataclass
class Outcome:
    """Count what became of the entries."""

    accepted: int = 0
    seen: int = 0
    refused: list[str] = field(default_factory=list)
    #: Queued before, and removed for a fresh start.
    removed: int = 0
    #: Not put in, as the queue was full.
    left_out: int = 0

    def __str__(self) -> str:
        text = f"{self.accepted} accepted, {self.seen} already seen, {len(self.refused)} refused"
        text = f"{self.removed} removed, {text}" if self.removed else text
        text += " (--dont-filter takes the seen ones too)" if self.seen else ""
        return text + (f"; {self.left_out} left out: the queue is full (FRONTIER_MAX_SEEDS)" if self.left_out else "")


class Command(ProjectCommand):
    """Put seeds into the frontier of a spider."""

    usage = "<spider> [URL ...] [-f FILE]"
    summary = "Put seeds (URLs, JSON objects, callback--url) into a spider's frontier"
    told = (SeedbedError, OSError)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("-f", "--file", metavar="FILE", help="a seed a line; - reads standard input")
        parser.add_argument("--dont-filter", action="store_true", help="take seeds that were seen already, too")
        parser.add_argument("--fresh", action="store_true", help="first remove what is queued and forget what was seen")
        super().add_options(parser)

    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        """Push the seeds; the exit code is 1 when any was refused or left out, 2 when there is no frontier."""
        if not args or (len(args) == 1 and not opts.file):
            raise UsageError("name the spider, and at least one URL or -f FILE")
        outcome = self._seed(args[0], args[1:], opts)
        for reason in outcome.refused:
            print(f"refused: {reason}", file=sys.stderr)
        self.answer(outcome, outcome)
        self.exitcode = int(bool(outcome.refused or outcome.left_out))

    def _seed(self, name: str, entries: list[str], opts: argparse.Namespace) -> Outcome:
        loaded = Loaded.by_name(name, self.settings)
        spider = loaded.spider
        config = Config.from_settings(loaded.settings)
        rules = Rules.of(config, loaded.settings)
        outcome = Outcome()

        def links(lines: Iterable[str]) -> Iterator[Link]:
            for request in _requests(spider, chain(entries, filter(str.strip, lines)), outcome):
                unfiltered = opts.dont_filter or request.dont_filter
                fingerprint = b"" if unfiltered else loaded.fingerprinter.fingerprint(request)
                try:
                    seed = seeds.encode(request, spider, priority=False)
                except SeedError as error:
                    outcome.refused.append(str(error))
                else:
                    yield Link(request.priority, fingerprint, UNFILTERED if unfiltered else FILTERED, seed)

        keys = Keys.of(spider.name, config.frontier_namespace)
        # A file that can't be read is told of before anything is removed for a fresh start.
        with _opened(opts.file) if opts.file else nullcontext(()) as lines:
            asyncio.run(_push(config, rules, keys, links(lines), outcome, fresh=opts.fresh))
        return outcome


async def _push(
    config: Config, rules: Rules, keys: Keys, links: Iterator[Link], outcome: Outcome, *, fresh: bool
) -> None:
    clients = AsyncClients(config)
    frontier = Frontier(clients, keys, f"seed:{os.getpid()}:{os.urandom(4).hex()}", rules, clients.where)
    try:
        await frontier.open(begin=False, starting=True)
        if fresh:
            outcome.removed = await frontier.clear()
        batch: list[Link] = []
        for link in links:
            batch.append(link)
            if len(batch) == BATCH and await _send(frontier, batch, outcome):
                outcome.left_out = sum(1 for _ in links)
        await _send(frontier, batch, outcome)
        await frontier.wait_durable()
    finally:
        # Even after an error: until a session that did not sign off counts as dead, no crawl can be complete.
        with suppress(SeedbedError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await frontier.leave()
        await clients.aclose()


async def _send(frontier: Frontier, batch: list[Link], outcome: Outcome) -> bool:
    """Send a batch; True: the queue is full."""
    answer = await frontier.exchange(batch)
    outcome.accepted += answer.accepted
    outcome.seen += answer.filtered
    batch.clear()
    if outcome.accepted + outcome.seen >= BATCH and sys.stderr.isatty():
        print(f"\r{outcome.accepted + outcome.seen:,} seeds", end="", file=sys.stderr, flush=True)
    return bool(answer.full)


def _opened(file: str) -> IO[str]:
    return sys.stdin if file == "-" else Path(file).open(encoding="utf-8", errors="surrogateescape")


def _requests(spider: Spider, entries: Iterator[str], outcome: Outcome) -> Iterator[Request]:
    for entry in entries:
        try:
            yield from parse_start(entry, spider)
        except SeedError as error:
            outcome.refused.append(str(error))
