"""What a log line tells beside its message: of which spider, worker, lease and page; as text, or as JSON (LOG_JSON)."""

import json
import logging
from collections.abc import Iterable, Mapping
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime
from typing import Any, Self
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler
from scrapy.http import Request, Response
from scrapy.settings import BaseSettings
from scrapy.utils.log import _get_handler

from crawler.config import Config
from crawler.errors import ConfigError

#: The page whose callback is at work.
_page: ContextVar[Request | None] = ContextVar("page", default=None)
#: The crawlers of this process, and the name that each one's worker has among all; empty as long as it has none.
_workers: WeakKeyDictionary[Crawler, str] = WeakKeyDictionary()


class Logs:
    """The add-on that puts a handler with this project's formatter in the place of Scrapy's, before anything is logged.

    It heeds Scrapy's settings (LOG_FILE, LOG_LEVEL, LOG_FORMAT, LOG_ENABLED, ...).
    """

    _handler: logging.Handler | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the add-on, and note that *crawler* is there."""
        _workers[crawler] = ""
        return cls()

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Install the handler of the process; Scrapy is to install none."""
        if settings.getbool("LOG_INSTALL_ROOT_HANDLER"):
            settings.set("LOG_INSTALL_ROOT_HANDLER", False, "addon")
            logging.root.setLevel(logging.NOTSET)
            cls._install(settings)

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Make it anew, with the settings of the crawler's spider."""
        if cls._handler is not None:
            cls._install(settings)

    @classmethod
    def _install(cls, settings: BaseSettings) -> None:
        if cls._handler is not None:
            logging.root.removeHandler(cls._handler)
            cls._handler.close()
        cls._handler = _get_handler(settings)  # type: ignore[arg-type] # it but reads them
        cls._handler.setFormatter(JsonFormatter() if _is_json(settings) else TextFormatter(cls._handler.formatter))
        logging.root.addHandler(cls._handler)


def _is_json(settings: BaseSettings) -> bool:
    try:
        return Config.from_settings(settings).log_json
    except ConfigError:  # whoever needs the setting at fault says so
        return False


def name_worker(crawler: Crawler, worker: str) -> None:
    """Have the lines of *crawler* tell the name that its worker has among all."""
    _workers[crawler] = worker


def about(request: Request) -> Context:
    """Return a context like this one, whose lines tell *request*."""
    context = copy_context()
    context.run(_page.set, request)
    return context


class AboutPage:
    """The spider middleware that has all lines of a callback, and of what handles its items, tell their page.

    Each response is handled in a task of its own, which begins here.
    """

    def process_spider_input(self, response: Response) -> None:
        """Note whose turn it is."""
        _page.set(response.request)


class JsonFormatter(logging.Formatter):
    """Make one line of a record: an object of time, level, logger, message, what is known of its context, and `fields`.

    The latter, like the `details` of a text, is what a caller gave the record by `extra`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **context_of(record),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = record.stack_info
        # What came from a broken page may hold half of a character, which no encoding has.
        return json.dumps(fields, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()


class TextFormatter(logging.Formatter):
    """Add its context to the first line that *inner* makes of a record, as far as it does not stand there."""

    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        first, newline, rest = self._inner.format(record).partition("\n")
        context = " ".join(f"{name}={value}" for name, value in context_of(record).items() if value not in first)
        lines = f"{first} [{context}]{newline}{rest}" if context else first + newline + rest
        details = getattr(record, "details", "")
        return f"{lines}\n{details}" if details else lines


def context_of(record: logging.LogRecord) -> dict[str, str]:
    """Return the spider, worker, lease and url that a record is about, as far as they are known."""
    found: dict[str, str] = {}
    crawler = _crawler_of(record)
    if crawler is not None:
        found["spider"] = crawler.spidercls.name
        if worker := _workers.get(crawler):
            found["worker"] = worker
    request = _request_of(record)
    if request is not None:
        if crawler is not None and (lease := _lease_of(crawler, request)):
            found["lease"] = lease
        found["url"] = request.url
    return found


def _crawler_of(record: logging.LogRecord) -> Crawler | None:
    # Scrapy's own lines say whose they are; where but one crawler runs, all others are its.
    crawler = getattr(record, "crawler", None) or getattr(getattr(record, "spider", None), "crawler", None)
    if isinstance(crawler, Crawler):
        return crawler
    return next(iter(_workers)) if len(_workers) == 1 else None


def _request_of(record: logging.LogRecord) -> Request | None:
    args: Iterable[Any] = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    for value in args:
        if isinstance(value, Request):
            return value
        if isinstance(value, Response) and value.request is not None:
            return value.request
    return _page.get()


def _lease_of(crawler: Crawler, request: Request) -> str:
    engine = crawler._engine
    lease_of = getattr(engine.scheduler, "lease_of", None) if engine is not None else None
    return lease_of(request) if lease_of else ""
