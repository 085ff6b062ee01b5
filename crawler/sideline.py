"""Lines to Redis beside the scheduler's own: for what middlewares, pipelines and spiders keep there."""

from scrapy import signals
from scrapy.crawler import Crawler

from crawler.config import Config
from crawler.frontier.client import TIMEOUT_S, AsyncClients
from crawler.frontier.line import Line


def line_for(crawler: Crawler, timeout_s: float = TIMEOUT_S) -> Line:
    """Return a line of its own, which connects when it is used, and is closed when *crawler* stops.

    An answer may take *timeout_s*, unless REDIS_URL says how long. Raises ConfigError.
    """
    clients = AsyncClients(Config.from_settings(crawler.settings), timeout_s)
    crawler.signals.connect(clients.aclose, signals.engine_stopped, weak=False)
    return Line(clients, clients.where)
