"""`scrapy crawl`, Scrapy's own, but that a spider that there is not is told in words, with those that there are."""

import argparse
import sys
from typing import Any

from scrapy.commands import crawl
from scrapy.spiderloader import get_spider_loader

from crawler.commands.naming import unknown_spider


class Command(crawl.Command):
    """Run a spider."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run it; the exit code is 1 when it could not crawl, 2 when there is no such spider."""
        settings: Any = self.settings
        if len(args) == 1 and args[0] not in get_spider_loader(settings).list():
            print(f"seedbed: {unknown_spider(args[0], settings)}", file=sys.stderr)
            self.exitcode = 2
            return
        super().run(args, opts)
