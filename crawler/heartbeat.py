"""Show that the event loop runs, and end a worker whose event loop does not."""

import faulthandler
import logging
import os
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from crawler.config import Config
from crawler.errors import ConfigError
from crawler.refusal import for_extension

logger = logging.getLogger(__name__)

#: The exit code of a worker that its watchdog ended.
EXIT_STALLED = 70

_BEAT_S = 1.0


class Heartbeat:
    """Touch HEARTBEAT_FILE each second from the event loop; end the process when that stops for WATCHDOG_S.

    A hung worker keeps its leases for as long as its process lives (their renewal is not on the event loop), and Docker
    restarts no container for being unhealthy: so the process has to end. WATCHDOG_S must be well above a long parse.
    """

    def __init__(self, crawler: Crawler, file: Path, watchdog_s: float) -> None:
        self._file = file
        self._file.touch()
        self._watchdog = Watchdog(watchdog_s)
        self._beats = create_looping_call(self._beat)
        crawler.signals.connect(self._start, signals.engine_started)
        crawler.signals.connect(self._stop, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension; without HEARTBEAT_FILE there is none, and one that can't be written stops the start."""
        with for_extension(crawler):
            config = Config.from_settings(crawler.settings)
            if not config.heartbeat_file:
                raise NotConfigured
            try:
                return cls(crawler, Path(config.heartbeat_file), config.watchdog_s)
            except OSError as error:
                raise ConfigError(f"HEARTBEAT_FILE={config.heartbeat_file}: it can't be written ({error})") from None

    def _start(self) -> None:
        self._watchdog.start()
        self._beats.start(_BEAT_S)

    def _beat(self) -> None:
        self._watchdog.feed()
        try:
            self._file.touch()
        except OSError as error:
            logger.warning("HEARTBEAT_FILE=%s: it can't be touched (%s); the health check will fail", self._file, error)

    def _stop(self) -> None:
        self._beats.stop()
        self._watchdog.stop()
        self._file.unlink(missing_ok=True)


class Watchdog(Thread):
    """End the process with EXIT_STALLED when nobody feeds it for *limit_s*, after saying where each thread stands."""

    #: What it adds for the thread of faulthandler, which ends the process (with 1) when this one can't run either:
    #: a regular expression that runs away holds the interpreter's lock.
    BACKSTOP_S = 5.0

    def __init__(self, limit_s: float) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._limit_s = limit_s
        self._stopped = Event()
        # Its own wake-ups are counted, the clock is not read: a process that was frozen itself is not at fault.
        self._hungry_s = 0.0

    def feed(self) -> None:
        """Put the end off for *limit_s*."""
        self._hungry_s = 0.0
        faulthandler.dump_traceback_later(self._limit_s + self.BACKSTOP_S, exit=True)

    def stop(self) -> None:
        """Call it off."""
        self._stopped.set()
        faulthandler.cancel_dump_traceback_later()

    def run(self) -> None:
        """Watch until stopped."""
        while not self._stopped.wait(_BEAT_S):
            self._hungry_s += _BEAT_S
            if self._hungry_s >= self._limit_s:
                self._end_process()

    def _end_process(self) -> None:
        faulthandler.dump_traceback()
        sys.stderr.write(
            f"The event loop has stood still for {self._limit_s:g} s (WATCHDOG_S); see above where. This worker ends "
            f"itself with code {EXIT_STALLED}; its seeds go back to the queue when its lease expires.\n"
        )
        sys.stderr.flush()
        os._exit(EXIT_STALLED)
