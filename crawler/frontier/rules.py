"""What all workers of a spider agree on."""

from dataclasses import dataclass
from typing import Self

from scrapy.settings import BaseSettings

from crawler.config import Config
from crawler.frontier.dedup import Dedup


@dataclass(frozen=True, slots=True)
class Rules:
    """Hold what all workers of a spider agree on."""

    project: str
    dedup: Dedup
    lease_ms: int
    #: Between two fetches of one host by any worker.
    delay_ms: int = 0
    lifo: bool = False
    keep_seen: bool = False
    max_deaths: int = 3
    #: Pages that a crawl may fetch, in all and of one host; 0: any number.
    max_pages: int = 0
    max_host_pages: int = 0
    #: Seeds that may be queued or leased, 0: any number; and whether the lowest of more are dropped.
    max_seeds: int = 0
    drops: bool = False
    #: Seeds that a pop looks at beyond those that it hands out.
    scan: int = 512

    @classmethod
    def of(cls, config: Config, settings: BaseSettings) -> Self:
        """Return the rules that the settings ask for."""
        return cls(
            project=settings["BOT_NAME"],
            dedup=Dedup.of(config),
            lease_ms=int(config.frontier_lease_s * 1000),
            delay_ms=int(settings.getfloat("DOWNLOAD_DELAY") * 1000),
            keep_seen=config.dedup_keep or config.dedup_ttl_s > 0,
            max_deaths=config.frontier_max_deaths,
            max_pages=config.frontier_max_pages,
            max_host_pages=config.frontier_max_pages_per_host,
            max_seeds=config.frontier_max_seeds,
            drops=config.frontier_full == "drop-lowest",
        )
