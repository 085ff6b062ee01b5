"""The exporter's command: `python -m exporter`."""

import argparse
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from crawler.config import Config
from crawler.errors import ConfigError
from crawler.frontier.client import Clients
from crawler.httpd import Httpd
from crawler.logs import JsonFormatter
from exporter.filters import FilterCollector
from exporter.frontier import FrontierCollector, Frontiers, WorkerCollector
from exporter.line import Line
from exporter.memory import MemoryCollector
from exporter.mongo import MongoCollector
from exporter.mongo import connect as connect_mongo
from exporter.oldest import OldestCollector
from exporter.scrape import Exporter
from exporter.start_urls import StartUrlCollector

logger = logging.getLogger("exporter")

#: How long Redis may let a scrape wait; with MongoDB's own limit it stays within Prometheus's scrape_timeout.
REDIS_TIMEOUT_S = 3.0


def main() -> str | None:
    """Serve until told to stop, or print the metrics once; return what is wrong, or None."""
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = Config.from_environ()
        if config.log_json:
            logging.root.handlers[0].setFormatter(JsonFormatter())
        with exporting(config) as exporter:
            if not arguments.once:
                serve(exporter, config)
                return None
            sys.stdout.buffer.write(exporter.metrics().body)
            return "\n".join(f"{name}: {failure}" for name, failure in exporter.failures.items()) or None
    except ConfigError as error:
        return str(error)


@contextmanager
def exporting(config: Config) -> Iterator[Exporter]:
    """Give an exporter of what *config* names; it connects at the first scrape, and again whenever it must."""
    with Clients(config, REDIS_TIMEOUT_S) as clients, connect_mongo(config) as mongo:
        frontiers = Frontiers(Line(clients))
        yield Exporter(
            [
                FrontierCollector(frontiers),
                WorkerCollector(frontiers),
                StartUrlCollector(frontiers, config),
                FilterCollector(frontiers),
                OldestCollector(frontiers),
                MemoryCollector(frontiers),
                MongoCollector(mongo, config),
            ]
        )


def serve(exporter: Exporter, config: Config) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError when the port can't be had."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = Httpd.listen("EXPORTER_PORT", config.metrics_host, [config.exporter_port], exporter.pages)
    logger.info("Metrics at http://%s:%d/metrics", config.metrics_host, server.port)
    stop.wait()
    server.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m exporter",
        description="Serve the metrics of what all workers share: frontier, filters, memory, workers, MongoDB.",
        epilog="Set by the environment: REDIS_URL, MONGO_URI, MONGO_DATABASE, METRICS_HOST, EXPORTER_PORT (0: a free "
        "port), and the accounts REDIS_USERNAME, REDIS_PASSWORD(_FILE), MONGO_USERNAME, MONGO_PASSWORD(_FILE).",
    )
    parser.add_argument("--once", action="store_true", help="print the metrics and end: with 1 if a part failed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
