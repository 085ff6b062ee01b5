"""A thread that keeps this worker's leases alive, so that a long parse does not lose them."""

import logging
import threading

from redis.exceptions import NoScriptError

from crawler.config import Config
from crawler.errors import FrontierDownError, FrontierError
from crawler.frontier.client import Clients, translated
from crawler.frontier.keys import Keys
from crawler.frontier.verbs import verb

logger = logging.getLogger(__name__)


class LeaseKeeper:
    """Extend the leases three times in their life, over a connection of its own."""

    def __init__(self, config: Config, keys: Keys, worker: str) -> None:
        self._clients = Clients(config)
        self._keys = keys
        self._worker = worker
        self._lease_s = config.frontier_lease_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def start(self) -> None:
        """Begin; the first extension is due after a third of a lease."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns without waiting for a call that is under way."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._lease_s / 3):
            try:
                with translated(self._clients.where):
                    self._extend()
            except FrontierDownError:
                continue  # the scheduler's own calls say so; the next beat may get through
            except FrontierError as error:
                logger.warning("Could not extend the leases: %s", error)
        self._clients.close()

    def _extend(self) -> None:
        extend, lease_ms = verb("extend"), int(self._lease_s * 1000)
        client = self._clients(self._keys.workers)
        try:
            client.evalsha(extend.sha, 1, self._keys.workers, self._worker, lease_ms)
        except NoScriptError:
            client.eval(extend.text, 1, self._keys.workers, self._worker, lease_ms)
