"""The connection of a command, which may wait as long as MongoDB needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import ConfigurationError, PyMongoError

from crawler.config import Config
from crawler.errors import ConfigError
from crawler.storage.client import DURABLE, client_options, unreachable

#: How long MongoDB may look through a collection before its first answer.
TIMEOUT_MS = 600_000

Documents = dict[str, Any]


@contextmanager
def opened(config: Config) -> Iterator[Database[Documents]]:
    """Give the database; what MongoDB refuses in between is told as StorageError.

    Raises ConfigError or StorageError, which say what to do.
    """
    try:
        client: MongoClient[Documents] = MongoClient(
            config.mongo_uri, **client_options(config) | {"socketTimeoutMS": TIMEOUT_MS}
        )
    except (ConfigurationError, ValueError) as error:
        raise ConfigError(f"MONGO_URI: {error}") from None
    with client:
        try:
            yield client.get_database(config.mongo_database, write_concern=DURABLE)
        except PyMongoError as error:
            raise unreachable(config, error) from None
