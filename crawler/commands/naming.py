"""Which spider a command means: of this project, or one that has a frontier in Redis; another name is refused."""

from typing import Any

from scrapy.spiderloader import get_spider_loader

from crawler.config import Config
from crawler.errors import UnknownSpiderError
from crawler.frontier.client import Clients
from crawler.frontier.controls import spiders
from crawler.frontier.keys import Keys


def unknown_spider(name: str, settings: Any) -> UnknownSpiderError:
    """Return what says that the project has no spider of this *name*, and which it has."""
    there = ", ".join(sorted(get_spider_loader(settings).list())) or "none"
    return UnknownSpiderError(f"this project has no spider {name!r}; it has: {there}")


def keys_of(name: str, config: Config, settings: Any, clients: Clients) -> Keys:
    """Return the keys of the spider *name* (or `namespace/name`); one round trip.

    Raises UnknownSpiderError where neither Redis has a frontier of it nor the project a spider.
    """
    keys = Keys(name) if "/" in name else Keys.of(name, config.frontier_namespace)
    there = spiders(clients)
    if keys.tag not in there and name.rpartition("/")[2] not in get_spider_loader(settings).list():
        frontiers = f"there are frontiers of: {', '.join(there)}" if there else "there is no frontier at all"
        raise UnknownSpiderError(f"{unknown_spider(name, settings)}; and at {clients.where} {frontiers}")
    return keys
