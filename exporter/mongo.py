"""Show what MongoDB tells of itself, the few numbers that a crawl depends on."""

from datetime import UTC
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from crawler.config import Config
from crawler.errors import StorageError
from crawler.storage.client import address, client_options, reason
from crawler.storage.itemtypes import MAINTENANCE
from crawler.storage.maintenance import LAST_BACKUP
from exporter import names
from exporter.exposition import Exposition

#: How long the server may let a scrape wait, milliseconds.
TIMEOUT_MS = 2_000
#: Collections that are shown at most, so that no item class can make up series without end.
MAX_COLLECTIONS = 50

_UNAUTHORIZED = 13

Document = dict[str, Any]


def connect(config: Config) -> MongoClient[Document]:
    """Return a client that connects at its first command."""
    limits = dict.fromkeys(("serverSelectionTimeoutMS", "connectTimeoutMS", "socketTimeoutMS"), TIMEOUT_MS)
    return MongoClient(config.mongo_uri, **client_options(config) | limits)


class MongoCollector:
    """Ask one server for its status and one database for its collections; needs the role clusterMonitor."""

    name = "mongo"

    def __init__(self, client: MongoClient[Document], config: Config) -> None:
        self._client = client
        self._database = client[config.mongo_database]
        self._where = address(config)

    def collect(self, out: Exposition) -> None:
        """Ask; raises StorageError when the server can't be reached or refuses."""
        up = primary = False
        try:
            primary = bool(self._client.admin.command("hello").get("isWritablePrimary"))
            up = True
            _add_status(out, self._client.admin.command("serverStatus"))
            self._add_database(out)
            self._add_backup(out)
        except PyMongoError as error:
            raise StorageError(f"MongoDB at {self._where}: {reason(error)}") from error
        finally:
            out.add(names.MONGO_UP, up)
            out.add(names.MONGO_PRIMARY, primary)

    def _add_database(self, out: Exposition) -> None:
        disk = self._database.command("dbStats")
        if "fsTotalSize" in disk:
            out.add(names.MONGO_DISK_SIZE, disk["fsTotalSize"])
            out.add(names.MONGO_DISK_USED, disk["fsUsedSize"])
        # Those that this account may ask about: clusterMonitor may not list them all.
        listed = self._database.list_collection_names(authorizedCollections=True)
        collections = [name for name in listed if not name.startswith("system.")]
        for name in sorted(collections)[:MAX_COLLECTIONS]:
            stats = self._database.command("collStats", name)
            out.add(names.MONGO_DOCUMENTS, stats["count"], name)
            out.add(names.MONGO_DATA, stats["size"], name)
            out.add(names.MONGO_STORAGE, stats["storageSize"] + stats["totalIndexSize"], name)

    def _add_backup(self, out: Exposition) -> None:
        try:
            note = self._database[MAINTENANCE].find_one({"_id": LAST_BACKUP})
        except OperationFailure as error:
            if error.code != _UNAUTHORIZED:
                raise
            return  # an account of another's making, with the role clusterMonitor alone
        if note:
            out.add(names.BACKUP_SUCCESS, note["at"].replace(tzinfo=UTC).timestamp())


def _add_status(out: Exposition, status: Document) -> None:
    for operation in ("insert", "query", "update", "delete", "getmore", "command"):
        out.add(names.MONGO_OPERATIONS, status["opcounters"][operation], operation)
    for state in ("current", "available"):
        out.add(names.MONGO_CONNECTIONS, status["connections"][state], state)
    for kind, latency in status.get("opLatencies", {}).items():
        if kind in ("reads", "writes", "commands"):
            out.add_summary(names.MONGO_LATENCY, latency["latency"] / 1e6, latency["ops"], kind)
    for kind in ("readers", "writers"):
        out.add(names.MONGO_QUEUED, status["globalLock"]["currentQueue"][kind], kind)
    cache = status.get("wiredTiger", {}).get("cache", {})
    for family, field in (
        (names.MONGO_CACHE_LIMIT, "maximum bytes configured"),
        (names.MONGO_CACHE_USED, "bytes currently in the cache"),
        (names.MONGO_CACHE_DIRTY, "tracked dirty bytes in the cache"),
    ):
        if field in cache:
            out.add(family, cache[field])
