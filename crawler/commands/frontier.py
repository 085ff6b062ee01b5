"""`scrapy frontier …`: look at what the frontier holds, and steer it while the crawl runs."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from scrapy.exceptions import UsageError

from crawler.command import ProjectCommand
from crawler.commands.loading import Loaded
from crawler.commands.naming import keys_of
from crawler.commands.tables import duration, table
from crawler.frontier.client import Clients
from crawler.frontier.controls import Controls, spiders
from crawler.frontier.keys import Keys
from crawler.frontier.spools import Note, spool_notes
from crawler.frontier.status import Status
from crawler.start_urls import parse_start

USAGE = """
  status [SPIDER] [--watch]        what is queued, leased, done and dead
  peek SPIDER [-n COUNT]           the seeds that come next
  pause SPIDER, resume SPIDER      all workers stop taking seeds, and go on
  delay SPIDER HOST SECONDS        a host's own delay, for all workers (SECONDS `default`: as the settings say)
  block SPIDER HOST, unblock …     keep a host's seeds, and hand out none
  forget SPIDER URL…               forget that these were seen (DEDUP=exact): they are taken again when found
  clear SPIDER [--forget]          remove what is queued; --forget: and what was seen
  dead SPIDER                      the seeds that were set aside, with their reasons
  dead SPIDER retry|drop NUMBER…   put them back into the queue, or drop them for good (`all`: every one)
"""


class Command(ProjectCommand):
    """Look at the frontier and steer it."""

    usage = "ACTION [SPIDER] [...] [options]\n" + USAGE
    summary = "Look at what is queued, leased, done and dead; pause, slow, block, clear"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("-n", "--count", type=int, default=20, help="how many seeds to show (default: 20)")
        parser.add_argument("--watch", action="store_true", help="show the status every 2 s, with rates, until Ctrl-C")
        parser.add_argument("--forget", action="store_true", help="with clear: forget what was seen, too")
        super().add_options(parser)

    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run one action; the exit code is 1 when there was nothing to do, 2 when it could not be done."""
        if not args:
            raise UsageError("name an action")
        action, *rest = args
        actions = {
            "status": self._status,
            "peek": self._peek,
            "pause": self._pause,
            "resume": self._resume,
            "delay": self._delay,
            "block": self._block,
            "unblock": self._unblock,
            "forget": self._forget,
            "clear": self._clear,
            "dead": self._dead,
        }
        if action not in actions:
            raise UsageError(f"there is no action {action!r}")
        if action != "status" and not rest:
            raise UsageError(f"{action}: for which spider?")
        try:
            self._config = self.config()
            with Clients(self._config) as self._clients:
                actions[action](rest, opts)
        except KeyboardInterrupt:
            self.exitcode = 0

    # -- looking

    def _status(self, args: list[str], opts: argparse.Namespace) -> None:
        tags = [self._keys(name).tag for name in args] or spiders(self._clients)
        if not tags and not opts.json:
            print("No spider has a frontier here yet. Start a worker, or `scrapy seed SPIDER URL`.")
            return
        before: dict[str, Status] = {}
        while True:
            now = {tag: self._controls_of(Keys(tag)).status() for tag in tags}
            if opts.json:
                print(msgspec.json.encode(now).decode(), flush=True)
            else:
                print(_status_table(now, before), flush=True)
                if notes := spool_notes(self._clients):
                    print("\nOn workers' disks, until MongoDB takes it:\n" + _spool_table(notes), flush=True)
            if not opts.watch:
                return
            before = now
            time.sleep(2)

    def _peek(self, args: list[str], opts: argparse.Namespace) -> None:
        found = self._controls(args).peek(opts.count)
        outcome = [{"priority": priority, "seed": seed} for priority, seed in found]
        self.answer(outcome, table(("priority", "seed"), found) if found else "Nothing is queued.")

    # -- steering

    def _pause(self, args: list[str], _: argparse.Namespace) -> None:
        paused = self._controls(args).pause()
        self._tell("Paused: workers finish what they hold." if paused else "", "Not running: nothing to pause.")

    def _resume(self, args: list[str], _: argparse.Namespace) -> None:
        resumed = self._controls(args).resume()
        self._tell("Running again." if resumed else "", "Not paused: nothing to resume.")

    def _delay(self, args: list[str], _: argparse.Namespace) -> None:
        controls, (host, seconds) = self._controls(args), self._rest(args, "HOST", "SECONDS")
        try:
            delay_ms = None if seconds == "default" else int(float(seconds) * 1000)
        except ValueError:
            raise UsageError(f"{seconds!r} is no number of seconds, and not `default`") from None
        if delay_ms is not None and delay_ms < 0:
            raise UsageError("a delay can't be less than 0")
        controls.set_delay(host.lower(), delay_ms)
        self._tell(f"{host}: the delay of the settings." if delay_ms is None else f"{host}: {delay_ms} ms.")

    def _block(self, args: list[str], _: argparse.Namespace) -> None:
        controls, (host,) = self._controls(args), self._rest(args, "HOST")
        controls.block(host.lower())
        self._tell(f"{host} is blocked: its seeds are kept, and none is handed out.")

    def _unblock(self, args: list[str], _: argparse.Namespace) -> None:
        controls, (host,) = self._controls(args), self._rest(args, "HOST")
        self._tell(f"{host} is served again." if controls.unblock(host.lower()) else "", f"{host} was not blocked.")

    def _forget(self, args: list[str], _: argparse.Namespace) -> None:
        controls, (name, *entries) = self._controls(args), args
        if not entries:
            raise UsageError("which URLs are to be forgotten?")
        loaded = Loaded.by_name(name.rpartition("/")[2], self.settings)
        requests = [request for entry in entries for request in parse_start(entry, loaded.spider)]
        forgotten = controls.forget([loaded.fingerprinter.fingerprint(request) for request in requests])
        self._tell(f"{forgotten} of {len(requests)} forgotten." if forgotten else "", "None of these was seen.")

    def _clear(self, args: list[str], opts: argparse.Namespace) -> None:
        removed = self._controls(args).clear(forget=opts.forget)
        self._tell(f"{removed:,} queued seeds removed{', and what was seen forgotten' if opts.forget else ''}.")

    def _dead(self, args: list[str], _: argparse.Namespace) -> None:
        controls = self._controls(args)
        if len(args) > 1:
            self._revive(controls, args[1], args[2:])
            return
        dead = sorted(controls.dead(), key=lambda seed: seed.number)
        rows = [(f"{s.number}", _clock(s.died_ms), s.deaths, s.reason, s.seed) for s in dead]
        header = ("number", "since", "deaths", "reason", "seed")
        self.answer(dead, table(header, rows) if dead else "No seed was set aside.")

    def _revive(self, controls: Controls, action: str, names: Sequence[str]) -> None:
        if action not in {"retry", "drop"} or not names:
            raise UsageError("dead SPIDER retry|drop NUMBER… (or `all`)")
        if "all" in names:
            numbers = [seed.number for seed in controls.dead()]
        elif all(name.isdigit() for name in names):
            numbers = [int(name) for name in names]
        else:
            raise UsageError("dead seeds are named by their numbers; `scrapy frontier dead SPIDER` lists them")
        taken = controls.revive(numbers, retry=action == "retry")
        done = "put back into the queue" if action == "retry" else "dropped"
        self._tell(f"{taken:,} seeds {done}." if taken else "", "There is no such dead seed.")

    # -- inside

    def _keys(self, spider: str) -> Keys:
        return keys_of(spider, self._config, self.settings, self._clients)

    def _controls(self, args: list[str]) -> Controls:
        return self._controls_of(self._keys(args[0]))

    def _controls_of(self, keys: Keys) -> Controls:
        return Controls(self._clients(keys.meta), keys, self._clients.where)

    def _rest(self, args: list[str], *names: str) -> list[str]:
        if len(args) != 1 + len(names):
            raise UsageError(f"wanted: SPIDER {' '.join(names)}")
        return args[1:]

    def _tell(self, done: str, not_done: str = "") -> None:
        """Say what was done, or (if that is empty) why nothing was."""
        said = done or not_done
        self.answer({"done": bool(done), "message": said}, said, None if done or self._json else sys.stderr)
        self.exitcode = 0 if done else 1


def _status_table(now: dict[str, Status], before: dict[str, Status]) -> str:
    header = ["spider", "state", "queued", "leased", "done", "dead", "removed", "filtered", "pages", "workers", "books"]
    if before:
        header += ["pages/s", "drained in"]
    rows = []
    for tag, status in now.items():
        books = "balanced" if not status.unbalanced else f"OFF BY {status.unbalanced:,}"
        row: list[object] = [tag, _state_of(status), status.queued, status.leased, status.done, status.dead]
        row += [status.removed, status.filtered, _pages_of(status), len(status.workers), books]
        if before:
            row += _rates(status, before[tag])
        rows.append(row)
    return table(header, rows)


def _state_of(status: Status) -> str:
    return f"{status.state}, full" if status.is_full else status.state


def _pages_of(status: Status) -> str:
    return f"{status.pages} of {status.max_pages}" if status.max_pages else f"{status.pages}"


def _spool_table(notes: Mapping[str, Note]) -> str:
    rows = [
        (name, note.documents, f"{note.size_bytes / 1e6:,.1f}", _clock(note.oldest_ms), _clock(note.noted_ms))
        for name, note in notes.items()
    ]
    return table(("spool", "documents", "MB", "oldest", "noted"), rows)


def _rates(now: Status, before: Status) -> tuple[str, str]:
    took_s = max(now.now_ms - before.now_ms, 1) / 1000
    done_per_s = (now.done - before.done) / took_s
    shrinks_per_s = (before.queued - now.queued) / took_s
    return f"{done_per_s:.1f}", duration(now.queued / shrinks_per_s) if shrinks_per_s > 0 else "-"


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
