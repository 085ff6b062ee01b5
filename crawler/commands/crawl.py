"""`scrapy crawl`, Scrapy's own, but that a wrong name of a spider or value of a setting is told in words."""

import argparse
import sys
from typing import Any

from scrapy.commands import crawl
from scrapy.crawler import Crawler
from scrapy.spiderloader import get_spider_loader

from crawler.commands.naming import unknown_spider
from crawler.config import Config
from crawler.errors import SeedbedError


class Command(crawl.Command):
    """Run a spider."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run it; the exit code is 1 when it could not crawl, 2 when a name or a value is wrong."""
        try:
            super().run(args, opts)
        except SeedbedError as error:
            print(f"seedbed: {error}", file=sys.stderr)
            self.exitcode = 2

    def _create_crawler(self, spidercls: Any) -> Crawler:
        settings: Any = self.settings
        if spidercls not in get_spider_loader(settings).list():
            raise unknown_spider(spidercls, settings)
        crawler = super()._create_crawler(spidercls)
        Config.from_settings(crawler.settings)  # the values of the command line and of the spider, too
        return crawler
