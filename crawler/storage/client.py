"""The connection to MongoDB, and what to say when there is none."""

from typing import Any
from urllib.parse import urlsplit

from pymongo import AsyncMongoClient, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError, PyMongoError

from crawler.config import Config
from crawler.errors import ConfigError, StorageError
from crawler.storage.itemtypes import RAW_PAGES

#: A write counts when a majority of the members have it in their journals (invariant 2).
DURABLE = WriteConcern(w="majority", j=True)

Database = AsyncDatabase[dict[str, Any]]


def address(config: Config) -> str:
    """Return where MongoDB is, without any password."""
    parts = urlsplit(config.mongo_uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def client_options(config: Config) -> dict[str, Any]:
    """Return what a client is to be given besides MONGO_URI."""
    options: dict[str, Any] = {
        "appname": "seedbed",
        "serverSelectionTimeoutMS": int(config.store_connect_s * 1000),
        "connectTimeoutMS": int(config.store_connect_s * 1000),
        "socketTimeoutMS": int(config.store_timeout_s * 1000),
    }
    if config.mongo_username:
        options |= {"username": config.mongo_username, "password": config.mongo_password}
    return options


def open_database(config: Config, **options: Any) -> Database:
    """Return the database, which nobody has asked anything yet; *options* are PyMongo's. Raises ConfigError."""
    try:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            config.mongo_uri, **client_options(config) | options
        )
    except (ConfigurationError, ValueError) as error:
        raise ConfigError(f"MONGO_URI: {error}") from None
    return client.get_database(config.mongo_database, write_concern=DURABLE)


async def greet(database: Database) -> None:
    """Return when the database is there and answers this account; two round trips. Raises PyMongoError."""
    # A ping would be answered to anybody.
    await database[RAW_PAGES].find_one({}, {"_id": 1})


def unreachable(config: Config, error: PyMongoError) -> StorageError:
    """Return the error to raise when MongoDB can't be used."""
    return StorageError(
        f"MongoDB at {address(config)} can't be used: {reason(error)}. Start it there, or set MONGO_URI (and "
        "MONGO_USERNAME and MONGO_PASSWORD, if it wants them) to one that runs; STORAGE=false crawls without it"
    )


def reason(error: PyMongoError) -> str:
    """Return what an error of PyMongo says, without the state of the whole topology or the documents at hand."""
    text = str(error)
    for end in (" (configured timeouts", ", Timeout:", ", full error"):
        text = text.partition(end)[0]
    return text
