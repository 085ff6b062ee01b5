"""What a command must know of a spider that does not run: its settings and how it tells requests apart."""

from dataclasses import dataclass
from typing import Any, Self

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinterProtocol

from crawler.commands.naming import unknown_spider


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold a spider of the project, its settings, and its fingerprinter."""

    spider: Spider
    settings: BaseSettings
    fingerprinter: RequestFingerprinterProtocol

    @classmethod
    def by_name(cls, name: str, settings: Any) -> Self:
        """Return the spider named *name*. Raises UnknownSpiderError when the project has none."""
        try:
            crawler = AsyncCrawlerRunner(settings).create_crawler(name)  # a runner heeds ADDONS
        except KeyError:
            raise unknown_spider(name, settings) from None
        fingerprinter = build_from_crawler(load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"]), crawler)
        return cls(crawler.spidercls(), crawler.settings, fingerprinter)
