"""`scrapy reparse`: run a spider's callbacks over its stored pages, and update the items; nothing is fetched."""

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
from scrapy import signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.utils.asyncio import create_looping_call

from crawler.commands.moments import moment
from crawler.commands.naming import unknown_spider
from crawler.commands.progress import Progress
from crawler.commands.tables import duration, table
from crawler.reparse import TROUBLES, Run, prepare
from crawler.storage.itemtypes import RAW_PAGES
from crawler.storage.stored import Selection

#: How often it is looked whether there is progress to show.
SHOWN_EVERY_S = 0.5


class Command(BaseRunSpiderCommand):
    """Parse a spider's stored pages again."""

    requires_project = True

    def syntax(self) -> str:
        """Return how it is called."""
        return "<spider> [--url PATTERN] [--since DATE] [--until DATE] [--limit N] [--dry-run] [--json]"

    def short_desc(self) -> str:
        """Return what it does, in a line."""
        return "Parse a spider's stored pages again: items are updated, nothing is fetched"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        super().add_options(parser)
        parser.add_argument("--url", metavar="PATTERN", default="", help="pages whose URL this regex matches somewhere")
        since = "pages fetched last then or later: a date (2026-11-30, 2026-11-30T12:00Z) or a span of the past (30d)"
        parser.add_argument("--since", metavar="DATE", type=_point, help=since)
        parser.add_argument("--until", metavar="DATE", type=_point, help="pages fetched last before that")
        parser.add_argument("--limit", metavar="N", type=int, help="parse N pages at most")
        parser.add_argument("--dry-run", action="store_true", help="tell what would change, and leave MongoDB as it is")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Keep the log to what went wrong, unless it is asked for."""
        super().process_options(args, opts)
        settings: Any = self.settings
        if not (opts.loglevel or opts.logfile):
            settings.set("LOG_LEVEL", "WARNING", "cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Parse the pages; the exit code is 1 when anything went wrong, 2 when it could not begin."""
        if len(args) != 1:
            raise UsageError("name one spider")
        if opts.limit is not None and opts.limit < 1:
            raise UsageError(f"--limit {opts.limit}: 1 or more is wanted")
        try:
            crawler = self._create_crawler(args[0])
        except KeyError:
            print(f"seedbed: {unknown_spider(args[0], self.settings)}", file=sys.stderr)
            self.exitcode = 2
            return
        run = Run(Selection(args[0], opts.url, opts.since, opts.until), opts.limit or 0, opts.dry_run)
        prepare(crawler.settings, run)
        process: Any = self.crawler_process
        process.crawl(crawler, **opts.spargs)
        with Progress() as progress:
            show(progress, run, crawler)
            process.start()
        if not run.has_begun:
            self.exitcode = 2  # the log says why
            return
        for trouble in run.troubles:
            print(f"went wrong: {trouble}", file=sys.stderr)
        if run.ended:
            print(f"seedbed: it ended early: {run.ended}", file=sys.stderr)
        elif not run.counts["read"]:
            print(
                f"seedbed: no page of {args[0]!r} in {RAW_PAGES} fits what was asked for; archived ones must be "
                "restored first (scrapy archive --restore)",
                file=sys.stderr,
            )
        print(msgspec.json.encode(as_data(run)).decode() if opts.json else as_table(run))
        self.exitcode = int(run.went_wrong)


def _point(text: str) -> datetime:
    try:
        return moment(text, datetime.now(UTC))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def show(progress: Progress, run: Run, crawler: Crawler) -> None:
    """Have *progress* tell how far *run* is, as long as *crawler* works on it."""
    looping = create_looping_call(tell, progress, run)

    def begin() -> None:
        looping.start(SHOWN_EVERY_S)

    crawler.signals.connect(begin, signals.engine_started, weak=False)
    crawler.signals.connect(looping.stop, signals.engine_stopped)


def tell(progress: Progress, run: Run) -> None:
    """Have *progress* tell how far *run* is now."""
    parsed = run.counts["parsed"]
    if run.progress:
        progress.total = round(parsed / run.progress)
    progress.tell(parsed, "pages parsed")


def as_table(run: Run) -> str:
    """Say what became of the pages and their items."""
    counts = run.counts
    kept_away = counts["read"] - counts["unreadable"] - counts["parsed"]
    rows: list[tuple[str, int]] = [
        ("pages parsed", counts["parsed"]),
        ("pages that a middleware kept from the spider", kept_away),
        ("requests given, and not followed", counts["requests"]),
        ("items", counts["items"]),
        ("  new", counts["new"]),
        ("  changed", counts["changed"]),
        ("  unchanged", counts["unchanged"]),
        ("  found on a page that was fetched later", counts["outdated"]),
        ("items dropped by a pipeline", counts["dropped"]),
        *((what, counts[kind]) for kind, what in TROUBLES.items()),
    ]
    lines = [table(("", "count"), [row for row in rows if row[1] or row[0] in ("pages parsed", "items")])]
    lines.append(f"\n{duration(run.took_s)}, {counts['parsed'] / run.took_s:,.0f} pages/s; ")
    if run.is_dry:
        lines[-1] += "nothing was written (--dry-run)"
    else:
        lines[-1] += f"parsed_at of these items is {as_data(run)['parsed_at']}"
    return "\n".join(lines)


def as_data(run: Run) -> dict[str, Any]:
    """Return the outcome for programs."""
    names = ("read", "parsed", "requests", "items", "new", "changed", "unchanged", "outdated", "dropped", *TROUBLES)
    return {
        "spider": run.selection.spider,
        "dry_run": run.is_dry,
        "parsed_at": run.began_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "took_s": round(run.took_s, 3),
        **{name: run.counts[name] for name in names},
        "troubles": run.troubles,
        "ended": run.ended,
    }
