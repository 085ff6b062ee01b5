"""Prepare MongoDB before the workers start: replica set, accounts, indexes (`python -m crawler.storage.setup`).

It may run at every start: what is as it should be stays, what differs is put right, and the outcome is checked. Given
the server's key file (MONGO_KEYFILE_FILE) it signs in as the server's own user, so that there is no administrator whose
password could leak, and makes the accounts; without one it uses MONGO_URI as it is, and makes none.
"""

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from pymongo import IndexModel, MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.uri_parser import parse_uri

from crawler.config import Config
from crawler.errors import ConfigError, SeedbedError, StorageError
from crawler.storage.client import client_options, reason, unreachable
from crawler.storage.itemtypes import MAINTENANCE, RAW_PAGES

#: What a worker may do in its database, and nothing anywhere else: `readWrite` could drop collections.
WORKER_ACTIONS = ("find", "insert", "update")
WORKER = "worker"


class Account(NamedTuple):
    """Say what an account may do: actions on collections of the database (""; all), and roles of MongoDB's own."""

    rights: Mapping[str, tuple[str, ...]] = {}
    roles: tuple[str, ...] = ()


ACCOUNTS = {
    WORKER: Account({"": WORKER_ACTIONS}),
    # When the last backup was made is a document; everything else is the server's to tell.
    "exporter": Account({MAINTENANCE: ("find",)}, ("clusterMonitor",)),
    # Moves old pages to files, and back where they are missing; nobody else may delete a page.
    "archivist": Account({RAW_PAGES: ("find", "insert", "remove")}),
    "backup": Account({MAINTENANCE: ("find", "insert", "update")}, ("backup",)),
}

#: Only what queries need: everything else is found by its `_id`.
INDEXES = {
    RAW_PAGES: [
        IndexModel([("url", 1)], name="url"),
        # For the archive, and for exports of a span of time.
        IndexModel([("crawled_at", 1)], name="crawled_at"),
    ]
}

_EXISTS = {51002, 51003}  # a role, a user
_SET_ALREADY_INITIATED = 23
_OTHER_INDEX = {85, 86}

Admin = Database[dict[str, Any]]


class SetupConfig(Config, frozen=True, kw_only=True, rename="upper"):
    """Hold what only the set-up is told."""

    #: The text of the server's key file.
    mongo_keyfile: str = ""
    #: The passwords that the accounts are to have.
    mongo_worker_password: str = ""
    mongo_exporter_password: str = ""
    mongo_archivist_password: str = ""
    mongo_backup_password: str = ""

    def __post_init__(self) -> None:
        """Refuse a key file without the passwords."""
        super().__post_init__()
        for account in ACCOUNTS:
            if self.mongo_keyfile and not self.password_of(account):
                raise ConfigError(f"MONGO_{account.upper()}_PASSWORD: the account that is made wants a password")

    def password_of(self, account: str) -> str:
        """Return the password that an account is to have."""
        password: str = getattr(self, f"mongo_{account}_password")
        return password


def prepare(config: SetupConfig) -> None:
    """Do what is to be done, and say so line by line. Raises ConfigError or StorageError."""
    try:
        _initiate_replica_set(config)
        with _client(config) as client:
            client.admin.command("ping")  # waits for a primary
            if config.mongo_keyfile:
                _make_accounts(client.admin, config)
            _make_indexes(client[config.mongo_database])
        if config.mongo_keyfile:
            _check_worker(config)
    except PyMongoError as error:
        raise unreachable(config, error) from None


def main() -> int:
    """Prepare MongoDB; return the exit code."""
    try:
        prepare(SetupConfig.from_environ())
    except SeedbedError as error:
        print(f"seedbed: {error}", file=sys.stderr)
        return 1
    print("MongoDB is ready")
    return 0


def _client(config: SetupConfig, hosts: str | list[str] = "", **changes: Any) -> MongoClient[dict[str, Any]]:
    """Return a client of MONGO_URI or *hosts* that signs in as the server's own user, if there is a key file."""
    options = client_options(config)
    if config.mongo_keyfile:
        key = "".join(config.mongo_keyfile.split())
        options |= {"username": "__system", "password": key, "authSource": "local"}
    return MongoClient(hosts or config.mongo_uri, **(options | changes))


def _initiate_replica_set(config: SetupConfig) -> None:
    """Initiate the replica set if the server was started as a member of one and knows no other member yet."""
    uri = parse_uri(config.mongo_uri)
    hosts = [f"{host}:{port}" for host, port in uri["nodelist"]]
    # As a member it does not answer those who ask for the set by name before there is one.
    options = {name: value for name, value in uri["options"].items() if name.lower() != "replicaset"}
    with _client(config, hosts[:1], directConnection=True, **options) as client:
        if not client.admin.command("hello").get("isreplicaset"):
            return
        replication = client.admin.command("getCmdLineOpts")["parsed"]["replication"]
        name = replication.get("replSetName") or replication["replSet"]
        members = [{"_id": number, "host": host} for number, host in enumerate(hosts)]
        try:
            client.admin.command("replSetInitiate", {"_id": name, "members": members})
        except OperationFailure as error:
            if error.code != _SET_ALREADY_INITIATED:
                raise
    print(f"Replica set {name}: initiated with {', '.join(hosts)}")


def _make_accounts(admin: Admin, config: SetupConfig) -> None:
    for name, account in ACCOUNTS.items():
        role = f"seedbed_{name}"
        privileges = [
            {"resource": {"db": config.mongo_database, "collection": collection}, "actions": list(actions)}
            for collection, actions in account.rights.items()
        ]
        _make(admin, "Role", role, privileges=privileges, roles=[])
        roles = [{"role": granted, "db": "admin"} for granted in (role, *account.roles)]
        _make(admin, "User", name, pwd=config.password_of(name), roles=roles)


def _make(admin: Admin, kind: str, name: str, **properties: Any) -> None:
    """Create a role or user, or give the one that is there these properties."""
    try:
        admin.command(f"create{kind}", name, **properties)
    except OperationFailure as error:
        if error.code not in _EXISTS:
            raise
        admin.command(f"update{kind}", name, **properties)
        print(f"{kind} {name}: brought up to date")
    else:
        print(f"{kind} {name}: created")


def _make_indexes(database: Database[dict[str, Any]]) -> None:
    for collection, indexes in INDEXES.items():
        try:
            names = database[collection].create_indexes(indexes)
        except OperationFailure as error:
            if error.code not in _OTHER_INDEX:
                raise
            raise StorageError(
                f"{database.name}.{collection} has another index of the same name or fields ({reason(error)}): drop it"
            ) from None
        print(f"Indexes of {database.name}.{collection}: {', '.join(names)}")


def _check_worker(config: SetupConfig) -> None:
    """Sign in as a worker does, and see that it may do what it must and nothing else."""
    with _client(config, username=WORKER, password=config.password_of(WORKER), authSource="admin") as client:
        status = client.admin.command("connectionStatus", showPrivileges=True)
    rights = {
        (privilege["resource"].get("db"), action)
        for privilege in status["authInfo"]["authenticatedUserPrivileges"]
        for action in privilege["actions"]
    }
    wanted = {(config.mongo_database, action) for action in WORKER_ACTIONS}
    if rights != wanted:
        raise StorageError(f"the account {WORKER} has the rights {sorted(rights)} and not {sorted(wanted)}")
    print(f"Account {WORKER}: may {', '.join(WORKER_ACTIONS)} in {config.mongo_database}, and nothing else")


if __name__ == "__main__":
    sys.exit(main())
