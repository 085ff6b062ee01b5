"""Exports of a real MongoDB, read back by the formats' own readers: complete, exact, and in constant memory."""

from __future__ import annotations

import base64
import builtins
import csv
import json
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import bson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from pymongo import MongoClient
from pymongo.database import Database

from bench.demo.worker import ROOT
from crawler.errors import ConfigError, StorageError
from crawler.export.columns import Kind, survey
from crawler.export.documents import Source
from crawler.export.formats import Counted, Csv, JsonLines
from crawler.export.parquet import Parquet
from crawler.export.run import export
from crawler.storage.documents import RawPage, encode_pages

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC)
Documents = list[dict[str, Any]]

HOSTILE: Documents = [
    {"_id": 1, "name": 'say "hi", twice\r\nor\nmore\rand ;\t', "price": Decimal128("12.50"), "at": NOW, "n": 1},
    {"_id": 2, "name": "", "price": None, "n": Int64(2**63 - 1), "deep": {"a": [1, {"b": b"\xff\0"}], "x": NOW}},
    {"_id": 3, "name": "\0\u2028€\U0001f600", "n": -(2**63), "raw": b"\xff\0\xfe", "f": float("nan"), "yes": True},
    {"_id": 4, "name": "=1+1", "f": float("-inf"), "id": ObjectId("0123456789abcdef01234567"), "empty": {}},
    {"_id": 5, "f": 0.1, "uuid": Binary.from_uuid(uuid.UUID(int=7)), "list": [], "yes": False, "raw": b""},
    {"_id": 6, "price": Decimal128("1E-6176"), "name": "NaN", "f": -0.0, "list": [None, "a,b"]},
]


@pytest.fixture
def database(mongo_uri: str, mongo_db: str) -> Iterator[Database[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        yield client[mongo_db]


def exported(database: Database[dict[str, Any]], name: str, form: Any, path: Path, **options: Any) -> Path:
    source = Source(database, name, **options)
    export(name, source, form, str(path), lambda *_: None)
    assert [found.name for found in path.parent.iterdir() if found.name.startswith(path.name)] == [path.name]
    return path


# -- values


def test_json_lines_are_exact(database: Database[dict[str, Any]], tmp_path: Path) -> None:
    database["items"].insert_many(HOSTILE)
    path = exported(database, "items", "jsonl", tmp_path / "items.jsonl")
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    read = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert read == [
        HOSTILE[0] | {"price": "12.50", "at": "2026-11-30T12:00:00.123Z"},
        HOSTILE[1] | {"deep": {"a": [1, {"b": "/wA="}], "x": "2026-11-30T12:00:00.123Z"}},
        HOSTILE[2] | {"raw": "/wD+", "f": "NaN"},
        HOSTILE[3] | {"f": "-Infinity", "id": "0123456789abcdef01234567"},
        HOSTILE[4] | {"uuid": "00000000-0000-0000-0000-000000000007", "raw": ""},
        HOSTILE[5] | {"price": "1E-6176"},
    ]
    assert math.copysign(1, read[5]["f"]) == -1


def test_csv_comes_back_cell_by_cell(database: Database[dict[str, Any]], tmp_path: Path) -> None:
    database["items"].insert_many(HOSTILE)
    path = exported(database, "items", "csv", tmp_path / "items.csv")
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, strict=True))
    names = ["_id", "name", "price", "at", "n", "deep", "raw", "f", "yes", "id", "empty", "uuid", "list"]
    assert list(rows[0]) == names
    assert [row["name"] for row in rows] == [document.get("name", "") for document in HOSTILE]
    assert [row["n"] for row in rows] == ["1", str(2**63 - 1), str(-(2**63)), "", "", ""]
    assert [row["price"] for row in rows] == ["12.50", "", "", "", "", "1E-6176"]
    assert [row["f"] for row in rows] == ["", "", "NaN", "-Infinity", "0.1", "-0.0"]
    assert [row["yes"] for row in rows] == ["", "", "true", "", "false", ""]
    assert rows[0]["at"] == "2026-11-30T12:00:00.123Z"
    assert json.loads(rows[1]["deep"]) == {"a": [1, {"b": "/wA="}], "x": "2026-11-30T12:00:00.123Z"}
    assert base64.b64decode(rows[2]["raw"]) == b"\xff\0\xfe"
    assert json.loads(rows[5]["list"]) == [None, "a,b"]


def test_parquet_has_types_and_loses_nothing(database: Database[dict[str, Any]], tmp_path: Path) -> None:
    database["items"].insert_many(HOSTILE)
    table = pq.read_table(exported(database, "items", "parquet", tmp_path / "items.parquet"))
    types = {field.name: field.type for field in table.schema}
    assert types == {
        "_id": pa.int64(),
        "name": pa.string(),
        "price": pa.string(),
        "at": pa.timestamp("ms", "UTC"),
        "n": pa.int64(),
        "deep": pa.string(),
        "raw": pa.binary(),
        "f": pa.float64(),
        "yes": pa.bool_(),
        "id": pa.string(),
        "empty": pa.string(),
        "uuid": pa.string(),
        "list": pa.string(),
    }
    rows = table.to_pylist()
    assert [row["name"] for row in rows] == [document.get("name") for document in HOSTILE]
    assert [row["n"] for row in rows] == [1, 2**63 - 1, -(2**63), None, None, None]
    assert [row["raw"] for row in rows] == [None, None, b"\xff\0\xfe", None, b"", None]
    assert rows[0]["at"] == NOW
    assert [Decimal(row["price"]) for row in rows if row["price"]] == [Decimal("12.50"), Decimal("1E-6176")]
    assert math.isnan(rows[2]["f"])
    assert [row["f"] for row in rows[3:]] == [float("-inf"), 0.1, -0.0]
    assert json.loads(rows[1]["deep"])["a"] == [1, {"b": "/wA="}]


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        ([1, None, 2], Kind.LONG, [1, None, 2]),
        ([1, 2.5], Kind.FLOAT, [1.0, 2.5]),
        ([2**53 + 1, 2.5], Kind.TEXT, [str(2**53 + 1), "2.5"]),
        ([True, 1], Kind.TEXT, ["true", "1"]),
        ([1, "a"], Kind.TEXT, ["1", "a"]),
        ([NOW, NOW], Kind.TIME, [NOW, NOW]),
        ([NOW, "soon"], Kind.TEXT, ["2026-11-30T12:00:00.123Z", "soon"]),
        ([b"a", "a"], Kind.TEXT, ["YQ==", "a"]),
        ([{"a": 1}, [2]], Kind.TEXT, ['{"a":1}', "[2]"]),
        ([None, None], Kind.TEXT, [None, None]),
    ],
)
def test_a_column_is_widened_without_loss(values: list[Any], kind: Kind, read: list[Any]) -> None:
    documents = [{"v": value} for value in values]
    columns = survey(documents, lambda _: None)
    assert columns == {"v": kind}
    stream = BytesIO()
    writer = Parquet(stream, columns)
    for document in documents:
        writer.write(document)
    writer.close()
    assert pq.read_table(BytesIO(stream.getvalue()))["v"].to_pylist() == read


# -- which documents, which fields


def test_a_span_of_time_is_of_when_an_item_became_what_it_is(
    database: Database[dict[str, Any]], tmp_path: Path
) -> None:
    day = timedelta(days=1)
    items = [{"_id": n, "crawled_at": NOW, "updated_at": NOW - n * day} for n in range(5)]
    database["items"].insert_many(items)
    database["rejects"].insert_many([{"_id": n, "crawled_at": NOW - n * day} for n in range(5)])
    for name in ("items", "rejects"):
        path = exported(database, name, "jsonl", tmp_path / name, since=NOW - 3 * day, until=NOW - day)
        assert [json.loads(line)["_id"] for line in path.read_text().splitlines()] == [2, 3]


def test_chosen_fields_come_alone_and_in_order(database: Database[dict[str, Any]], tmp_path: Path) -> None:
    database["items"].insert_many([{"_id": 1, "b": 2, "a": 1}, {"_id": 2, "a": 3, "c": 4}])
    for form, text in (
        ("jsonl", '{"a":1,"b":2}\n{"a":3}\n'),
        ("csv", "a,b,never\r\n1,2,\r\n3,,\r\n"),
    ):
        path = exported(database, "items", form, tmp_path / form, fields=("a", "b", "never"))
        assert path.read_bytes().decode() == text
    table = pq.read_table(exported(database, "items", "parquet", tmp_path / "p", fields=("a", "b", "never")))
    assert table.to_pydict() == {"a": [1, 3], "b": [2, None], "never": [None, None]}


def test_pages_come_without_their_bodies_unless_asked(database: Database[dict[str, Any]], tmp_path: Path) -> None:
    body = "Grüße".encode("latin-1")
    page = RawPage(
        *(b"k" * 20, "https://a/", "https://a/", 200, [(b"A", b"1"), (b"A", b"2")], body, []), "site", "c1", NOW
    )
    database["raw_pages"].insert_one(bson.decode(encode_pages([page])[0].raw))
    [line] = exported(database, "raw_pages", "jsonl", tmp_path / "pages").read_text().splitlines()
    document = json.loads(line)
    assert "body" not in document
    assert document["headers"] == {"A": ["1", "2"]}
    path = exported(database, "raw_pages", "parquet", tmp_path / "bodies", fields=("url", "body"))
    assert pq.read_table(path).to_pylist() == [{"url": "https://a/", "body": body}]


def test_a_collection_that_is_not_there_is_told_with_those_that_are(database: Database[dict[str, Any]]) -> None:
    with pytest.raises(StorageError, match="there is none yet"):
        Source(database, "products")
    database["offers"].insert_one({})
    database["items"].insert_one({})
    with pytest.raises(StorageError, match=r"no collection 'products' .*: there are items, offers$"):
        Source(database, "products")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_an_empty_collection_gives_an_empty_file(database: Database[dict[str, Any]], tmp_path: Path, form: str) -> None:
    database.create_collection("items")
    path = exported(database, "items", form, tmp_path / "items")
    if form == "parquet":
        assert pq.read_table(path).num_rows == 0
    else:
        assert path.read_bytes() == b""


# -- a file that is whole


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_comes_meanwhile_and_does_not_fit_ends_it_and_leaves_what_was_there(
    database: Database[dict[str, Any]], tmp_path: Path, form: Any
) -> None:
    path = tmp_path / "items"
    path.write_text("of yesterday")
    database["items"].insert_one({"_id": 1, "a": 1})
    source = Source(database, "items")

    def crawl_on(what: str, _: int) -> None:
        if what == "documents surveyed":
            database["items"].insert_one({"_id": 2, "new": 1})

    with pytest.raises(StorageError, match="'new' came while"):
        export("items", source, form, str(path), crawl_on)
    assert [found.name for found in tmp_path.iterdir()] == ["items"]
    assert path.read_text() == "of yesterday"


def test_a_value_of_another_kind_ends_a_parquet_file() -> None:
    writer = Parquet(BytesIO(), {"a": Kind.LONG})
    for value in (0.5, "text", True, b"", {}):
        with pytest.raises(StorageError, match="another kind of value in 'a'"):
            writer.write({"a": value})


# -- constant memory


class Tracked(dict[str, Any]):
    """A document that is counted while it lives."""

    alive = most = 0

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)
        Tracked.alive += 1
        Tracked.most = max(Tracked.most, Tracked.alive)

    def __del__(self) -> None:
        Tracked.alive -= 1


@pytest.fixture
def tracked() -> Callable[[], Iterator[Tracked]]:
    Tracked.alive = Tracked.most = 0
    return lambda: (Tracked(_id=n, text="x" * 100, nested={"n": n}) for n in range(5000))


class Sink(BytesIO):
    """What was written, and how often."""

    writes = 0

    def write(self, data: Any) -> int:
        self.writes += 1
        return super().write(data)


@pytest.mark.parametrize("make", [JsonLines, lambda stream: Csv(stream, ["_id", "text", "nested"])])
def test_a_document_is_forgotten_when_it_is_written(tracked: Callable[[], Iterator[Any]], make: Any) -> None:
    """Invariant 5: by counting documents that live, and writes that went out before the end."""
    sink = Sink()
    writer = make(Counted(sink))
    for document in tracked():
        writer.write(document)
    assert sink.writes >= 5000
    writer.close()
    assert Tracked.most <= 2


def test_a_survey_keeps_no_document(tracked: Callable[[], Iterator[Any]]) -> None:
    assert list(survey(tracked(), lambda _: None)) == ["_id", "text", "nested"]
    assert Tracked.most <= 2


@pytest.mark.parametrize(("limits", "rows"), [({"group_rows": 300}, 300), ({"group_bytes": 30_000}, 230)])
def test_row_groups_are_bounded(tracked: Callable[[], Iterator[Any]], limits: Mapping[str, int], rows: int) -> None:
    stream = BytesIO()
    columns = survey(tracked(), lambda _: None)
    writer = Parquet(stream, columns, **limits)
    for count, document in enumerate(tracked()):
        writer.write(document)
        assert max(len(cells) for cells in writer._cells.values()) <= rows, count
    writer.close()
    assert Tracked.most <= 2
    data = pq.ParquetFile(BytesIO(stream.getvalue())).metadata
    groups = [data.row_group(number).num_rows for number in range(data.num_row_groups)]
    assert sum(groups) == 5000
    assert set(groups[:-1]) <= set(range(rows - 15, rows + 1))
    assert len(groups) > 15


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"seedbed\[parquet\]"):
        Parquet(BytesIO(), {})


# -- the command


@pytest.fixture
def command(mongo_uri: str, mongo_db: str) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        environ = {"PATH": os.environ["PATH"], "MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db}
        line = [sys.executable, "-W", "error", "-m", "scrapy", "export", *arguments]
        return subprocess.run(line, env=environ, cwd=ROOT, capture_output=True, timeout=60, check=False)

    return run


def test_the_command_writes_files_and_pipes(
    command: Callable[..., subprocess.CompletedProcess[bytes]], database: Database[dict[str, Any]], tmp_path: Path
) -> None:
    database["products"].insert_many([{"_id": n, "updated_at": datetime.now(UTC)} for n in range(1000)])
    piped = command("products", "--fields", "_id", "--since", "1h")
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == b"".join(b'{"_id":%d}\n' % n for n in range(1000))
    assert b"1,000 documents of products written to the standard output" in piped.stderr
    assert b"no document has" not in piped.stderr
    misspelled = command("products", "--fields", "_id,price,updated", "--format", "csv")
    assert (misspelled.returncode, b"--fields: no document has price, updated" in misspelled.stderr) == (0, True)
    path = tmp_path / "products.parquet"
    filed = command("products", "--format", "parquet", "--output", str(path), "--json")
    assert filed.returncode == 0, filed.stderr
    assert json.loads(filed.stdout) == {
        "collection": "products",
        "output": str(path),
        "documents": 1000,
        "size_bytes": path.stat().st_size,
        "columns": ["_id", "updated_at"],
        "absent": [],
    }
    through_a_pipe = command("products", "--format", "parquet")
    assert pq.read_table(BytesIO(through_a_pipe.stdout)).num_rows == 1000
    assert command("products", "--until", "1h").stdout == b""
    assert json.loads(command("--list", "--json").stdout) == {"products": 1000}


def test_the_command_says_what_is_wrong(
    command: Callable[..., subprocess.CompletedProcess[bytes]], database: Database[dict[str, Any]], tmp_path: Path
) -> None:
    database["items"].insert_one({"_id": 1})
    for arguments, words in (
        (("products",), b"no collection 'products'"),
        (("items", "--since", "then"), b"'then' is no point in time"),
        (("items", "--fields", "a.b"), b"'a.b' is no name of a field"),
        (("items", "--output", str(tmp_path)), b"that is a folder"),
        (("items", "--output", str(tmp_path / "no" / "file")), b"No such file"),
        ((), b"name one collection"),
    ):
        told = command(*arguments)
        said = told.stdout + told.stderr
        assert (told.returncode, words in said, b"Traceback" in said) == (2, True, False), said


def test_a_reader_that_has_enough_ends_it_quietly(
    mongo_uri: str, mongo_db: str, database: Database[dict[str, Any]]
) -> None:
    database["items"].insert_many([{"_id": n, "text": "x" * 1000} for n in range(2000)])
    environ = {"PATH": os.environ["PATH"], "MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db}
    line = f"{sys.executable} -m scrapy export items | head -c 100 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environ, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
