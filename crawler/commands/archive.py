"""`scrapy archive`: old pages out of MongoDB into WARC files; what is there, and back."""

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bson import json_util
from scrapy.exceptions import UsageError

from crawler.command import ProjectCommand
from crawler.commands.moments import moment
from crawler.commands.progress import Progress
from crawler.commands.tables import table
from crawler.errors import ConfigError, SeedbedError
from crawler.storage.archive.lookup import find, load, restore, summaries
from crawler.storage.archive.move import Moved, Mover, Waiting
from crawler.storage.archive.place import Place
from crawler.storage.itemtypes import RAW_PAGES
from crawler.storage.opened import opened

USAGE = """
  [--older-than 30d] [--dry-run]   move the pages that were fetched before that into WARC files
  --list [--url URL]               the files; or the archived versions of a page
  --show URL|FINGERPRINT           the newest archived body of a page (--output FILE; --json: all but the body)
  --restore FILE|URL|FINGERPRINT…  put pages back that MongoDB lacks
"""


class Command(ProjectCommand):
    """Move old pages into WARC files, and back."""

    usage = "[options]\n" + USAGE
    summary = "Move old pages from MongoDB into WARC files; list, show and restore them"
    told = (SeedbedError, OSError)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        place = "the archive, a folder or an address such as s3://bucket/pages (ARCHIVE_URL, if not given)"
        parser.add_argument("--to", "--from", dest="place", metavar="URL", help=place)
        age = "a span (30d, 12h) or a date (2026-11-30); ARCHIVE_AFTER_DAYS, if not given"
        parser.add_argument("--older-than", metavar="AGE", help=age)
        size = "how large a file becomes, about (ARCHIVE_FILE_BYTES, if not given)"
        parser.add_argument("--file-bytes", metavar="BYTES", type=int, help=size)
        parser.add_argument("--dry-run", action="store_true", help="say what would be moved, and move nothing")
        parser.add_argument("--list", dest="listing", action="store_true", help="list what is archived")
        parser.add_argument("--url", help="with --list, the versions of this page (or fingerprint)")
        parser.add_argument("--show", dest="shown", metavar="KEY", help="give the newest archived body of a page")
        parser.add_argument("--output", metavar="FILE", help="where --show writes to, if not to standard output")
        parser.add_argument("--restore", dest="restored", metavar="KEY", nargs="+", help="put pages back into MongoDB")
        super().add_options(parser)

    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do it; the exit code is 1 when pages had to stay behind, 2 when it could not be done, 130 when stopped."""
        chosen = [opts.listing, opts.shown is not None, opts.restored is not None]
        if args or sum(chosen) > 1:
            raise UsageError(f"{args[0]!r} belongs to no option" if args else "only one of --list, --show, --restore")
        if opts.file_bytes is not None and opts.file_bytes < 1:
            raise UsageError("--file-bytes: 1 or more is wanted")
        try:
            self._config = self.config()
            place = Place(self._place(opts.place))
            if opts.listing:
                self._list(place, opts)
            elif opts.shown is not None:
                self._show(place, opts)
            elif opts.restored is not None:
                self._restore(place, opts.restored)
            else:
                self._move(place, opts)
        except KeyboardInterrupt:
            self.fail("stopped; files that were complete stay, and MongoDB has all other pages", 130)

    def _place(self, given: str | None) -> str:
        if place := given or self._config.archive_url:
            return place
        raise ConfigError("ARCHIVE_URL (or --to): where is the archive? A folder, or an address such as s3://bucket/x")

    def _move(self, place: Place, opts: argparse.Namespace) -> None:
        now = datetime.now(UTC)
        try:
            before = moment(opts.older_than, now) if opts.older_than else now - self._age
        except ValueError as error:
            raise UsageError(f"--older-than: {error}") from None
        if before > now:
            raise UsageError("--older-than: a point of the past is wanted")
        with opened(self._config) as database, Progress() as progress:
            mover = Mover(
                database[RAW_PAGES],
                place,
                before,
                file_bytes=opts.file_bytes or self._config.archive_file_bytes,
                tell=lambda pages: progress.tell(pages, "pages written"),
            )
            outcome = mover.waiting() if opts.dry_run else mover.run()
        for name in place.unfinished():
            print(
                f"{name} is being written, or its writer died: then it can go, as MongoDB has its pages",
                file=sys.stderr,
            )
        self.answer(outcome, _said(outcome, place))
        self.exitcode = int(isinstance(outcome, Moved) and bool(outcome.unfit))

    def _list(self, place: Place, opts: argparse.Namespace) -> None:
        if opts.url:
            versions = find(place, opts.url)
            rows: list[Any] = [
                (one.entry.fingerprint, f"{one.entry.crawled_at:%Y-%m-%d %H:%M:%SZ}", one.entry.body_bytes, one.file)
                for one in versions
            ]
            text = table(("fingerprint", "crawled", "bytes", "file"), rows) if rows else "Not in the archive."
            self.answer(versions, text)
            self.exitcode = 0 if versions else 1
            return
        files = list(summaries(place))
        rows = [
            (one.file, one.pages, one.size_bytes, f"{one.oldest:%Y-%m-%d}", f"{one.newest:%Y-%m-%d}") for one in files
        ]
        header = ("file", "pages", "bytes", "oldest", "newest")
        self.answer(files, table(header, rows) if rows else f"Nothing is archived at {place.url}.")

    def _show(self, place: Place, opts: argparse.Namespace) -> None:
        versions = find(place, opts.shown)
        if not versions:
            self.fail(f"{opts.shown}: not in the archive at {place.url}", 1)
            return
        page = load(place, versions[0])
        if opts.output:
            Path(opts.output).write_bytes(page.body)
        if opts.json:
            described = {name: value for name, value in page.document.items() if name != "body"}
            print(json_util.dumps(described, json_options=json_util.RELAXED_JSON_OPTIONS))
        elif not opts.output:
            sys.stdout.flush()
            sys.stdout.buffer.write(page.body)
            sys.stdout.buffer.flush()

    def _restore(self, place: Place, keys: list[str]) -> None:
        with opened(self._config) as database:
            done = restore(place, keys, database[RAW_PAGES])
        self.answer(done, f"{done.put_back:,} pages put back; {done.there:,} were there already.")

    @property
    def _age(self) -> timedelta:
        return timedelta(days=self._config.archive_after_days)


def _said(outcome: Waiting | Moved, place: Place) -> str:
    if isinstance(outcome, Waiting):
        if not outcome.pages:
            return "No page is that old."
        span = f"{outcome.oldest:%Y-%m-%d} to {outcome.newest:%Y-%m-%d}"
        return f"{outcome.pages:,} pages would be moved ({outcome.size_bytes:,} bytes in MongoDB, fetched {span})."
    lines = [
        f"{outcome.pages:,} pages moved to {len(outcome.files)} files at {place.url} ({outcome.size_bytes:,} bytes)."
    ]
    if outcome.fetched_again:
        lines.append(f"{outcome.fetched_again:,} of them were fetched again meanwhile, and stay in MongoDB, too.")
    lines += [f"{key} stays in MongoDB: {reason}" for key, reason in outcome.unfit.items()]
    return "\n".join(lines) if outcome.pages or outcome.unfit else "No page is that old."
