"""What a crawl does at this moment, asked of Redis and MongoDB, and how that is shown."""

import time
from dataclasses import dataclass

import redis
from pymongo.database import Database
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from crawler.frontier.calls import read_status, status_call
from crawler.frontier.keys import Keys
from crawler.frontier.status import Status
from crawler.frontier.verbs import verb
from crawler.storage.itemtypes import RAW_PAGES

#: How often a display that is no terminal gets a line, seconds.
LINE_EVERY_S = 5.0


@dataclass(frozen=True)
class Sight:
    """Hold one look at a crawl."""

    status: Status
    #: Fingerprints in the dedup filter.
    seen: int
    pages: int
    items: int


class Watcher:
    """Look at one spider's crawl."""

    def __init__(self, client: redis.Redis, keys: Keys, database: Database[dict[str, object]], items: str) -> None:
        self._client = client
        self._keys = keys
        self._database = database
        self._items = items

    def look(self) -> Sight:
        """Ask Redis and MongoDB; four round trips."""
        _, names, args = status_call(self._keys)
        reply = self._client.eval(verb("status").text, len(names), *names, *args)
        return Sight(
            read_status(bytes(reply)),
            int(self._client.hget(self._keys.meta, "seen") or 0),
            self._database[RAW_PAGES].estimated_document_count(),
            self._database[self._items].estimated_document_count(),
        )


class Display:
    """Show a crawl: a live table on a terminal, else a line now and then."""

    def __init__(self, console: Console, expected: int | None) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]crawl"),
            BarColumn(),
            TaskProgressColumn() if expected else TextColumn(""),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("crawl", total=expected)
        self._live = Live(self._progress, console=console, refresh_per_second=5) if console.is_terminal else None
        self._began = self._last_line = time.monotonic()
        self._rates: list[tuple[float, int]] = []

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, sight: Sight, workers: int) -> None:
        """Show one look."""
        now = time.monotonic()
        self._rates = [(then, pages) for then, pages in self._rates if then > now - 3][-50:]
        then, pages = self._rates[0] if self._rates else (self._began, 0)
        rate = (sight.pages - pages) / max(now - then, 0.1)
        self._rates.append((now, sight.pages))
        figures = {
            "pages stored": f"{sight.pages:,}",
            "pages/s": f"{rate:,.0f}",
            "items stored": f"{sight.items:,}",
            "queued": f"{sight.status.queued:,}",
            "in hand": f"{sight.status.leased:,}",
            "seen (filter)": f"{sight.seen:,}",
            "workers": str(workers),
        }
        if self._live:
            table = Table.grid(padding=(0, 2))
            for name, value in figures.items():
                table.add_row(f"[dim]{name}", f"[bold]{value}")
            self._progress.update(self._task, completed=sight.pages)
            self._live.update(Group(self._progress, table))
        elif now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            self._console.print(" · ".join(f"{name} {value}" for name, value in figures.items()), highlight=False)
