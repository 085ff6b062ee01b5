"""The set-up service on a mongod with accounts, as in the deployment: what it makes, and what a worker may not do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from bench.demo.worker import ROOT
from bench.servers import EmbeddedMongo
from crawler.config import Config
from crawler.export.documents import Source
from crawler.storage.archive.lookup import restore
from crawler.storage.archive.move import Mover
from crawler.storage.archive.place import Place
from crawler.storage.documents import RawPage, encode_pages
from exporter.exposition import Exposition
from exporter.mongo import MongoCollector, connect

KEY = "c2VlZGJlZCdz\ndGVzdHM=" * 4
PASSWORDS = {
    "MONGO_WORKER_PASSWORD": "w/rker:p@ss",
    "MONGO_EXPORTER_PASSWORD": "exp",
    "MONGO_ARCHIVIST_PASSWORD": "arch",
    "MONGO_BACKUP_PASSWORD": "back",
}
_UNAUTHORIZED = 13


class SecuredMongo(EmbeddedMongo):
    """A mongod that wants a password and was never told of its replica set, as a container starts it."""

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        command = super()._command()
        key_file = self.data_dir / "key"
        key_file.write_text(KEY)
        key_file.chmod(0o400)
        written = Path(command[-1])
        settings = json.loads(written.read_text())
        settings["security"] = {"authorization": "enabled", "keyFile": str(key_file)}
        settings["replication"] = {"replSetName": "rs7"}
        written.write_text(json.dumps(settings))
        return command


@pytest.fixture(scope="module")
def secured(mongo_server: EmbeddedMongo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMongo]:
    with SecuredMongo(mongo_server.program, data_dir=tmp_path_factory.mktemp("mongo")) as server:
        done = setup(server.url, keyed(server))
        assert done.returncode == 0, done.stdout + done.stderr
        yield server


def keyed(server: EmbeddedMongo) -> dict[str, str]:
    return {"MONGO_KEYFILE_FILE": str(server.data_dir / "key"), "MONGO_DATABASE": "crawl", **PASSWORDS}


def setup(uri: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "MONGO_URI": uri, "STORE_CONNECT_S": "20", **variables}
    command = [sys.executable, "-W", "error", "-m", "crawler.storage.setup"]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_a_second_run_finds_everything_and_changes_nothing(secured: SecuredMongo) -> None:
    done = setup(secured.url, keyed(secured))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Role seedbed_worker: brought up to date",
        "User worker: brought up to date",
        "Role seedbed_exporter: brought up to date",
        "User exporter: brought up to date",
        "Role seedbed_archivist: brought up to date",
        "User archivist: brought up to date",
        "Role seedbed_backup: brought up to date",
        "User backup: brought up to date",
        "Indexes of crawl.raw_pages: url, crawled_at",
        "Account worker: may find, insert, update in crawl, and nothing else",
        "MongoDB is ready",
    ]


def test_the_replica_set_is_initiated_under_the_address_that_was_given(secured: SecuredMongo) -> None:
    with signed_in(secured, "worker", PASSWORDS["MONGO_WORKER_PASSWORD"]) as client:
        hello = client.admin.command("hello")
    assert hello["setName"] == "rs7"
    assert hello["hosts"] == [f"127.0.0.1:{secured.port}"]


def signed_in(server: EmbeddedMongo, user: str, password: str) -> MongoClient[dict[str, Any]]:
    return MongoClient(server.url, username=user, password=password, serverSelectionTimeoutMS=20_000)


def test_a_worker_does_its_work(secured: SecuredMongo) -> None:
    with signed_in(secured, "worker", PASSWORDS["MONGO_WORKER_PASSWORD"]) as client:
        items = client["crawl"]["a_new_collection"]
        items.insert_one({"_id": 1})
        items.update_one({"_id": 1}, [{"$replaceWith": {"_id": 1, "n": 2}}])
        assert items.find_one({"_id": 1}) == {"_id": 1, "n": 2}
        # And whoever exports with this account sees what there is.
        assert list(Source(client["crawl"], "a_new_collection").documents()) == [{"_id": 1, "n": 2}]


@pytest.mark.parametrize(
    "attempt",
    [
        lambda client: client["crawl"]["raw_pages"].drop(),
        lambda client: client.drop_database("crawl"),
        lambda client: client["crawl"]["raw_pages"].delete_many({}),
        lambda client: client["crawl"]["raw_pages"].create_index("status"),
        lambda client: client["crawl"]["raw_pages"].rename("stolen"),
        lambda client: client["crawl"].command("createUser", "me", pwd="x", roles=[]),
        lambda client: client.admin.command("updateUser", "worker", roles=["root"]),
        lambda client: client.admin.command("usersInfo"),
        lambda client: client["other"]["things"].insert_one({}),
        lambda client: client["other"]["things"].find_one(),
        lambda client: client["local"]["oplog.rs"].find_one(),
        lambda client: client["admin"]["system.users"].find_one(),
        lambda client: client.admin.command("shutdown"),
        lambda client: client.admin.command("serverStatus"),
        lambda client: client.admin.command("getCmdLineOpts"),
    ],
    ids=range(15),
)
def test_a_worker_may_do_nothing_else(
    secured: SecuredMongo, attempt: Callable[[MongoClient[dict[str, Any]]], object]
) -> None:
    with signed_in(secured, "worker", PASSWORDS["MONGO_WORKER_PASSWORD"]) as client:
        with pytest.raises(OperationFailure) as error:
            attempt(client)
        assert error.value.code == _UNAUTHORIZED


def test_the_exporter_reads_the_servers_state_and_no_data(secured: SecuredMongo) -> None:
    with signed_in(secured, "exporter", PASSWORDS["MONGO_EXPORTER_PASSWORD"]) as client:
        assert client.admin.command("serverStatus")["ok"]
        client["crawl"]["maintenance"].find_one()
        for attempt in (client["crawl"]["raw_pages"].find_one, lambda: client["crawl"]["maintenance"].insert_one({})):
            with pytest.raises(OperationFailure):
                attempt()


def test_the_archivist_moves_pages_and_does_nothing_else(secured: SecuredMongo, tmp_path: Path) -> None:
    page = RawPage(
        b"k" * 20, "https://a/", "https://a/", 200, [], b"body", [], "site", "c", datetime(2026, 1, 1, tzinfo=UTC)
    )
    with signed_in(secured, "worker", PASSWORDS["MONGO_WORKER_PASSWORD"]) as client:
        client["crawl"]["raw_pages"].insert_one(RawBSONDocument(encode_pages([page])[0].raw))
    place = Place(str(tmp_path / "archive"))
    with signed_in(secured, "archivist", PASSWORDS["MONGO_ARCHIVIST_PASSWORD"]) as client:
        pages = client["crawl"]["raw_pages"]
        mover = Mover(pages, place, datetime(2026, 6, 1, tzinfo=UTC), file_bytes=1 << 20, tell=lambda _: None)
        assert mover.waiting().pages == 1
        moved = mover.run()
        assert (moved.pages, pages.count_documents({})) == (1, 0)
        assert restore(place, moved.files, pages).put_back == 1
        for attempt in (
            lambda: pages.update_one({}, {"$set": {"url": "x"}}),
            pages.drop,
            lambda: pages.create_index("status"),
            lambda: client["crawl"]["products"].find_one(),
            lambda: client["crawl"]["products"].delete_many({}),
            lambda: client["local"]["oplog.rs"].find_one(),
            lambda: client.admin.command("serverStatus"),
        ):
            with pytest.raises(OperationFailure) as error:
                attempt()
            assert error.value.code == _UNAUTHORIZED
        pages.delete_many({})


def test_the_backup_reads_all_that_a_dump_does_and_writes_its_note_alone(secured: SecuredMongo) -> None:
    """What mongodump asks for with --oplog; mongodump itself can't be had where these tests run."""
    with signed_in(secured, "backup", PASSWORDS["MONGO_BACKUP_PASSWORD"]) as client:
        # Of `local` mongodump reads the oplog alone; the server's own notes in these two it leaves out.
        left_out = {"admin": "system.keys", "config": "system.", "crawl": "system."}
        assert set(left_out) < set(client.list_database_names())
        for database, prefix in left_out.items():
            names = [found["name"] for found in client[database].list_collections()]
            for there in (client[database][name] for name in names if not name.startswith(prefix)):
                there.find_one()
                list(there.list_indexes())
        assert client["local"]["oplog.rs"].find_one(sort=[("$natural", -1)])
        assert client["admin"]["system.users"].find_one({"user": "worker"})
        assert client.admin.command("getParameter", featureCompatibilityVersion=1)["ok"]
        for attempt in (
            lambda: client["crawl"]["raw_pages"].insert_one({}),
            lambda: client["crawl"]["raw_pages"].delete_many({}),
            lambda: client["crawl"]["maintenance"].delete_many({}),
            lambda: client["crawl"]["raw_pages"].drop(),
            lambda: client.admin.command("updateUser", "backup", roles=["root"]),
            lambda: client.admin.command("applyOps", []),
        ):
            with pytest.raises(OperationFailure) as error:
                attempt()
            assert error.value.code == _UNAUTHORIZED


def test_a_backup_is_noted_where_the_exporter_reads_it(secured: SecuredMongo) -> None:
    variables = {"MONGO_URI": secured.url, "MONGO_DATABASE": "crawl"}
    account = {"MONGO_USERNAME": "exporter", "MONGO_PASSWORD": PASSWORDS["MONGO_EXPORTER_PASSWORD"]}
    config = Config.from_environ(variables | account)
    with connect(config) as client:
        shown = Exposition()
        MongoCollector(client, config).collect(shown)
        assert b"crawler_backup_last_success_timestamp_seconds" not in shown.render()
        account = {"MONGO_USERNAME": "backup", "MONGO_PASSWORD": PASSWORDS["MONGO_BACKUP_PASSWORD"]}
        command = [sys.executable, "-W", "error", "-m", "crawler.storage.maintenance", "seedbed-1.archive.gz", "12345"]
        environ = {"PATH": os.environ["PATH"], **variables, **account}
        begin_s = time.time()
        for _ in range(2):
            subprocess.run(command, env=environ, cwd=ROOT, timeout=60, check=True)
        shown = Exposition()
        MongoCollector(client, config).collect(shown)
    found = re.search(rb"^crawler_backup_last_success_timestamp_seconds (\S+)$", shown.render(), re.MULTILINE)
    assert found
    assert begin_s - 1 < float(found[1]) < time.time() + 1
    with signed_in(secured, "worker", PASSWORDS["MONGO_WORKER_PASSWORD"]) as signed:
        [note] = signed["crawl"]["maintenance"].find()
    assert (note["name"], note["size_bytes"]) == ("seedbed-1.archive.gz", 12345)


def test_an_exporter_with_the_role_of_mongodb_alone_shows_all_but_the_backup(secured: SecuredMongo) -> None:
    with as_the_server(secured) as client:
        client.admin.command("createUser", "plain", pwd="plain", roles=["clusterMonitor"])
    config = Config.from_environ(
        {"MONGO_URI": secured.url, "MONGO_USERNAME": "plain", "MONGO_PASSWORD": "plain", "MONGO_DATABASE": "crawl"}
    )
    shown = Exposition()
    with connect(config) as client:
        MongoCollector(client, config).collect(shown)
    assert b"crawler_mongo_up 1" in shown.render()
    assert b"crawler_backup" not in shown.render()


def as_the_server(server: SecuredMongo) -> MongoClient[dict[str, Any]]:
    return MongoClient(server.url, username="__system", password="".join(KEY.split()), authSource="local")


def test_who_restores_signs_in_as_the_server_and_may_do_all_of_it(secured: SecuredMongo) -> None:
    with as_the_server(secured) as client:
        client["crawl"]["restored"].insert_one({"_id": 1})
        client["crawl"]["restored"].create_index("a")
        note = {"op": "i", "ns": "crawl.restored", "o": {"_id": 2}}
        assert client.admin.command("applyOps", [note])["ok"]
        assert client["crawl"]["restored"].count_documents({}) == 2
        client["crawl"]["restored"].drop()


def test_a_new_password_holds_from_the_next_start_on(secured: SecuredMongo) -> None:
    changed = {**keyed(secured), "MONGO_EXPORTER_PASSWORD": "another"}
    assert setup(secured.url, changed).returncode == 0
    with signed_in(secured, "exporter", "another") as client:
        assert client.admin.command("serverStatus")["ok"]
    with signed_in(secured, "exporter", "exp") as client, pytest.raises(OperationFailure):
        client.admin.command("serverStatus")
    assert setup(secured.url, keyed(secured)).returncode == 0


def assert_told(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    for word in words:
        assert word in done.stderr


def test_without_the_key_file_a_server_with_accounts_is_not_touched(secured: SecuredMongo) -> None:
    assert_told(setup(secured.url, {"MONGO_DATABASE": "crawl"}), "requires authentication", "MONGO_URI")


def test_a_wrong_key_file_is_told(secured: SecuredMongo, tmp_path: Path) -> None:
    wrong = tmp_path / "key"
    wrong.write_text("d3Jvbmc=")
    assert_told(setup(secured.url, {**keyed(secured), "MONGO_KEYFILE_FILE": str(wrong)}), "Authentication failed")


def test_a_key_file_without_passwords_is_told(secured: SecuredMongo) -> None:
    variables = keyed(secured)
    del variables["MONGO_EXPORTER_PASSWORD"]
    assert_told(setup(secured.url, variables), "MONGO_EXPORTER_PASSWORD")


def test_a_server_without_accounts_gets_its_indexes(mongo_uri: str, mongo_db: str) -> None:
    for _ in range(2):
        done = setup(mongo_uri, {"MONGO_DATABASE": mongo_db})
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [f"Indexes of {mongo_db}.raw_pages: url, crawled_at", "MongoDB is ready"]
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        assert set(client[mongo_db]["raw_pages"].index_information()) == {"_id_", "url", "crawled_at"}


def test_another_index_in_the_place_of_ours_is_told(mongo_uri: str, mongo_db: str) -> None:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        client[mongo_db]["raw_pages"].create_index([("url", -1)], name="url")
    assert_told(setup(mongo_uri, {"MONGO_DATABASE": mongo_db}), f"{mongo_db}.raw_pages", "drop it")
