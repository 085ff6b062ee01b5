"""The extension that serves a worker's /metrics."""

import logging
import time
from typing import Self

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pymongo import monitoring
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Request, Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached

from crawler.config import Config
from crawler.frontier.keys import Keys
from crawler.frontier.line import OPERATIONS
from crawler.httpd import Httpd, Page, landing_page
from crawler.metrics import names
from crawler.metrics.worker import Watched, WorkerCollector
from crawler.refusal import for_extension

logger = logging.getLogger(__name__)

_LAG_EVERY_S = 0.2


class Metrics:
    """Serve /metrics while the crawler runs (METRICS_HOST, METRICS_PORT).

    Two crawlers of one process share its endpoint. Raises ConfigError when no port can be had, which stops the start.
    """

    def __init__(self, crawler: Crawler, spider: Spider, config: Config) -> None:
        tag = Keys.of(spider.name, config.frontier_namespace).tag
        self._watched = Watched(crawler, config, tag)
        self._latency = names.DOWNLOAD_LATENCY.labels(tag)
        self._conversations = {kind: names.REDIS_COMMAND.labels(tag, kind) for kind in OPERATIONS}
        self._waits = names.QUEUE_WAIT.labels(tag)
        self._flushes = {
            "flush_seconds": names.STORE_FLUSH.labels(tag),
            "flush_documents": names.STORE_FLUSH_SIZE.labels(tag),
        }
        self._due_s = 0.0
        #: The request whose response came last, and its status: the end of its download is told next.
        self._answered: tuple[Request | None, int] = None, 0
        #: Where the endpoint listens: useful when METRICS_PORT left it open.
        self.port = _ENDPOINT.join(self._watched, config)
        crawler.signals.connect(self._measure_lag, signals.engine_started)
        crawler.signals.connect(self._listen, signals.spider_opened)
        crawler.signals.connect(self._response_downloaded, signals.response_downloaded)
        crawler.signals.connect(self._left_downloader, signals.request_left_downloader)
        crawler.signals.connect(self._close, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension; METRICS_PORT=off does without."""
        with for_extension(crawler):
            config = Config.from_settings(crawler.settings)
            if not config.metrics_ports or crawler.spider is None:
                raise NotConfigured
            return cls(crawler, crawler.spider, config)

    def _measure_lag(self) -> None:
        now_s = time.monotonic()
        if self._due_s:
            names.EVENT_LOOP_LAG.observe(max(0.0, now_s - self._due_s))
        self._due_s = now_s + _LAG_EVERY_S
        self._timer = call_later(_LAG_EVERY_S, self._measure_lag)

    def _listen(self) -> None:
        if scheduler := self._watched.scheduler:
            scheduler.on_conversation = lambda kind, seconds: self._conversations[kind].observe(seconds)
            scheduler.frontier.on_wait = self._waits.observe
        if storage := self._watched.storage:
            storage.on_count = self._note_stored

    def _note_stored(self, what: str, number: float) -> None:
        if histogram := self._flushes.get(what):
            histogram.observe(number)

    def _response_downloaded(self, response: Response, request: Request) -> None:
        self._answered = request, response.status
        self._watched.last_response_s = time.time()
        latency_s = request.meta.get("download_latency")
        if latency_s is not None:
            self._latency.observe(latency_s)

    def _left_downloader(self, request: Request) -> None:
        (answered, status), self._answered = self._answered, (None, 0)
        latency_s = request.meta.get("download_latency", 0.0)
        host = urlparse_cached(request).hostname or ""
        self._watched.hosts.note(host, status if answered is request else 0, latency_s)

    def _close(self) -> None:
        self._timer.cancel()
        _ENDPOINT.leave(self._watched)


class CommandTimes(monitoring.CommandListener):
    """Measure the commands to MongoDB."""

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Say nothing yet."""

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Observe it."""
        names.MONGO_COMMAND.labels(event.command_name).observe(event.duration_micros / 1e6)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Observe it, too: a command that ran out of time took it."""
        names.MONGO_COMMAND.labels(event.command_name).observe(event.duration_micros / 1e6)


class _Endpoint:
    """The one endpoint of this process, open as long as a crawler runs."""

    def __init__(self) -> None:
        self._collector = WorkerCollector()
        self._server: Httpd | None = None
        names.REGISTRY.register(self._collector)
        ProcessCollector(registry=names.REGISTRY)
        self._hears_mongo = False

    def join(self, watched: Watched, config: Config) -> int:
        if self._server is None:
            pages = {"/": _front, "/metrics": _metrics}
            self._server = Httpd.listen("METRICS_PORT", config.metrics_host, config.metrics_ports, pages)
            logger.info("Metrics at http://%s:%d/metrics", config.metrics_host, self._server.port)
        if not self._hears_mongo:
            self._hears_mongo = True
            monitoring.register(CommandTimes())  # with all clients that are made from now on
        self._collector.watched.append(watched)
        return self._server.port

    def leave(self, watched: Watched) -> None:
        self._collector.watched.remove(watched)
        if self._server and not self._collector.watched:
            self._server.close()
            self._server = None


def _metrics() -> Page:
    return Page(generate_latest(names.REGISTRY), CONTENT_TYPE_PLAIN_0_0_4)


def _front() -> Page:
    return landing_page("Seedbed worker", "The metrics of one worker, for Prometheus.", ["/metrics"])


_ENDPOINT = _Endpoint()
