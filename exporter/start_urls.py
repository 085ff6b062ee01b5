"""Show what producers wrote into the start keys and no worker has taken in: the queue before the frontier."""

from crawler.config import Config
from exporter import names
from exporter.exposition import Exposition
from exporter.frontier import Frontiers
from exporter.line import Question

#: How many entries a key holds, by what it is.
_LENGTH = {b"list": "LLEN", b"set": "SCARD", b"zset": "ZCARD"}


class StartUrlCollector:
    """Look at every spider's start keys; two round trips."""

    name = "start_urls"

    def __init__(self, frontiers: Frontiers, config: Config) -> None:
        self._frontiers = frontiers
        self._config = config

    def collect(self, out: Exposition) -> None:
        """Ask what each key is, then how long; one that is of another type counts as empty, as nobody can drain it."""
        # A spider's tag is its name behind its namespace.
        keys = [(tag, key) for tag in self._frontiers.statuses for key in self._config.start_keys(tag.split("/")[-1])]
        ask = self._frontiers.line.ask
        types = ask([Question.of("TYPE", key) for _, key in keys])
        kinds = {key: _LENGTH[kind] for (_, key), kind in zip(keys, types, strict=True) if kind in _LENGTH}
        lengths = dict(zip(kinds, ask([Question.of(command, key) for key, command in kinds.items()]), strict=True))
        for tag, key in keys:
            out.add(names.START_URLS, lengths.get(key, 0), tag, key)
