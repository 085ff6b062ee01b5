"""`scrapy export`: a collection as JSON Lines, CSV or Parquet."""

import argparse
import os
import sys
from datetime import UTC, datetime

from scrapy.exceptions import UsageError

from crawler.command import ProjectCommand
from crawler.commands.moments import moment
from crawler.commands.progress import Progress
from crawler.commands.tables import table
from crawler.config import Config
from crawler.errors import SeedbedError
from crawler.export.documents import Source, collections
from crawler.export.run import FORMATS, STDOUT, Exported, export
from crawler.storage.opened import opened


class Command(ProjectCommand):
    """Write a collection to a file, or to the standard output."""

    usage = "COLLECTION [options]  |  --list"
    summary = "Write a collection of items (or raw_pages) as JSON Lines, CSV or Parquet"
    told = (SeedbedError, OSError)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl, if not given")
        when = "a date (2026-11-30, 2026-11-30T12:00Z) or a span before now (7d, 12h)"
        parser.add_argument("--since", metavar="WHEN", help=f"what was updated at or after {when}")
        parser.add_argument("--until", metavar="WHEN", help="what was updated before that")
        parser.add_argument("--fields", metavar="A,B,C", help="these fields alone, in this order")
        parser.add_argument("--output", metavar="FILE", default=STDOUT, help="standard output (-), if not given")
        parser.add_argument("--list", dest="listing", action="store_true", help="name the collections, and count")
        super().add_options(parser)

    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        """Export; the exit code is 1 when the reader had enough, 2 when it could not be done, 130 when stopped."""
        if len(args) != (0 if opts.listing else 1):
            raise UsageError("name one collection, or --list")
        if opts.output == STDOUT and opts.format == "parquet" and sys.stdout.isatty():
            raise UsageError("Parquet is not for a terminal: --output FILE")
        try:
            config = self.config()
            if opts.listing:
                self._list(config)
            else:
                self._export(config, args[0], opts)
        except BrokenPipeError:  # whoever reads has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.exitcode = 1
        except KeyboardInterrupt:
            self.fail("stopped; no file was written", 130)

    def _export(self, config: Config, name: str, opts: argparse.Namespace) -> None:
        now = datetime.now(UTC)
        try:
            since, until = (moment(text, now) if text else None for text in (opts.since, opts.until))
        except ValueError as error:
            raise UsageError(str(error)) from None
        fields = _fields(opts.fields) if opts.fields is not None else ()
        with opened(config) as database, Progress(is_alone=opts.output != STDOUT) as progress:
            source = Source(database, name, fields=fields, since=since, until=until)
            progress.total = source.about()
            done = export(name, source, opts.format, opts.output, lambda what, count: progress.tell(count, what))
        # What is exported may be on the standard output; what is said of it is not to be among it.
        to = sys.stderr if opts.output == STDOUT else sys.stdout
        self.answer(done, _said(done), to)
        if done.documents and done.absent:
            print(f"seedbed: --fields: no document has {', '.join(done.absent)}", file=sys.stderr)

    def _list(self, config: Config) -> None:
        with opened(config) as database:
            counts = {name: database[name].estimated_document_count() for name in collections(database)}
        header = ("collection", "documents")
        self.answer(counts, table(header, counts.items()) if counts else "Nothing is stored yet.")


def _fields(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name or "." in name or name.startswith("$"):
            raise UsageError(f"--fields: {name!r} is no name of a field (those of nested documents can't be chosen)")
    if len(set(names)) < len(names):
        raise UsageError("--fields: a name comes twice")
    return names


def _said(done: Exported) -> str:
    to = "the standard output" if done.output == STDOUT else done.output
    columns = "" if done.columns is None else f", {len(done.columns)} columns"
    return f"{done.documents:,} documents of {done.collection} written to {to} ({done.size_bytes:,} bytes{columns})."
