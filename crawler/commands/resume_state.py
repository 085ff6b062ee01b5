"""`scrapy resume_state …`: how far a spider has come in the lists of sites, and to have it begin one anew."""

import argparse
import sys
from typing import Any

from scrapy.exceptions import UsageError

from crawler.command import ProjectCommand
from crawler.commands.naming import keys_of
from crawler.commands.tables import table
from crawler.frontier.client import Clients, translated
from crawler.frontier.keys import Keys
from crawler.resume import Progress


class Command(ProjectCommand):
    """Look at a spider's resume states, and forget them."""

    usage = "SPIDER [SITE…] [--forget]"
    summary = "How far a spider has come in the lists of sites; --forget: it begins them anew"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("--forget", action="store_true", help="forget the named sites, or all of the spider")
        super().add_options(parser)

    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        """List or forget; the exit code is 1 when there is nothing, 2 when it could not be done."""
        if not args:
            raise UsageError("name a spider")
        spider, *sites = args
        config = self.config()
        with Clients(config) as clients, translated(clients.where):
            keys = keys_of(spider, config, self.settings, clients)
            found = _states(clients(keys.resumes), keys, sites)
            if opts.forget:
                _forget(clients(keys.resumes), keys, list(found))
        self.exitcode = 0 if found else 1
        if not found and not opts.json:
            print(f"{spider} keeps no resume state{' of these sites' if sites else ''}.", file=sys.stderr)
        else:
            self.answer(found, f"Forgotten: {', '.join(found)}." if opts.forget else _table(found))


def _states(client: Any, keys: Keys, wanted: list[str]) -> dict[str, Progress]:
    """Return the states of the sites *wanted*, or of all; those of a site that is over its lifetime are gone."""
    sites = [site.decode() for site in client.zrange(keys.resumes, 0, -1)]
    states = {site: Progress.of(client.hgetall(keys.resume(site))) for site in sites if not wanted or site in wanted}
    return {site: state for site, state in states.items() if state.saved_at is not None}


def _forget(client: Any, keys: Keys, sites: list[str]) -> None:
    if sites:
        client.delete(*(keys.resume(site) for site in sites))
        client.zrem(keys.resumes, *sites)


def _table(found: dict[str, Progress]) -> str:
    rows = []
    for site, state in found.items():
        totals = ", ".join(f"{name} {count:,}" for name, count in state.totals.items())
        newest = f"{state.timestamp:%Y-%m-%d %H:%M:%SZ}" if state.timestamp else "-"
        rows.append(
            (site, state.page, newest, state.status or "-", totals or "-", f"{state.saved_at:%Y-%m-%d %H:%M:%SZ}")
        )
    return table(("site", "page", "newest entry", "status", "totals", "saved"), rows)
