"""Run the collectors, each failing alone, and remember which did."""

import logging
import time
from collections.abc import Sequence
from http import HTTPStatus
from threading import Lock
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from crawler.errors import SeedbedError
from crawler.httpd import Page, landing_page
from crawler.versions import versions
from exporter import names
from exporter.exposition import CONTENT_TYPE, Exposition

logger = logging.getLogger(__name__)


class Collector(Protocol):
    """Reads one part of what is shared."""

    @property
    def name(self) -> str:
        """Return what its success and duration are labelled with."""

    def collect(self, out: Exposition) -> None:
        """Add its samples; those added before an error count."""


class Exporter:
    """Scrape all collectors at each request for /metrics, one request after another."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors
        self._scraping = Lock()
        #: Collector -> what was wrong at the last scrape.
        self.failures: dict[str, str] = {}
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self.pages = {"/": self._front, "/metrics": self.metrics, "/health": self._health}

    def metrics(self) -> Page:
        """Scrape."""
        with self._scraping:
            out = Exposition()
            out.add(names.BUILD, 1, *versions().values())
            for collector in self._collectors:
                started_s = time.perf_counter()
                worked = self._run(collector, out)
                out.add(names.COLLECTOR_SUCCESS, worked, collector.name)
                out.add(names.COLLECTOR_DURATION, time.perf_counter() - started_s, collector.name)
            return Page(out.render() + generate_latest(self._process), CONTENT_TYPE)

    def _run(self, collector: Collector, out: Exposition) -> bool:
        try:
            collector.collect(out)
        except Exception as error:
            # It must not take the others with it. Said once, not at each scrape.
            if self.failures.get(collector.name) != str(error):
                expected = isinstance(error, SeedbedError)
                logger.warning("%s: %s", collector.name, error, exc_info=None if expected else error)
            self.failures[collector.name] = str(error)
            return False
        if self.failures.pop(collector.name, None):
            logger.info("%s: works again", collector.name)
        return True

    def _health(self) -> Page:
        if not self.failures:
            return Page(b"ok\n")
        text = "".join(f"{name}: {failure}\n" for name, failure in self.failures.items())
        return Page(text.encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)

    def _front(self) -> Page:
        return landing_page(
            "Seedbed exporter", "What all workers share, for Prometheus.", (path for path in self.pages if path != "/")
        )
