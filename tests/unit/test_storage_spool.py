"""The spool: order, bound, what counts as durable, what becomes of a damaged file and of a full disk, and adoption."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import bson
import pytest

from crawler.config import Config
from crawler.errors import ConfigError
from crawler.storage.documents import Document
from crawler.storage.spool import Spool
from crawler.storage.spoolfile import SpoolFile

ROOT = Path(__file__).parents[2]
LIMIT = 10 << 20

Groups = dict[str, list[Document]]
MakeSpool = Callable[..., Spool]


def batch(number: int, size_bytes: int = 10) -> Groups:
    """Return a page and two items that know the number of their batch."""
    groups: Groups = {}
    for collection in ("raw_pages", "items", "items"):
        fields = {"n": number, "body": os.urandom(size_bytes)}
        groups.setdefault(collection, []).append(Document.encoded(collection, bson.encode(fields)))
    return groups


def number_of(document: Document) -> int:
    return int(bson.decode(document.raw)["n"])


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeSpool]:
    """Give the function that makes workers' spools in one folder."""
    made: list[Spool] = []

    def spool(limit_bytes: int = LIMIT, counts: Counter[str] | None = None) -> Spool:
        noted = Counter[str]() if counts is None else counts
        made.append(Spool(tmp_path, limit_bytes, lambda name, number: noted.update({name: int(number)})))
        return made[-1]

    yield spool
    for one in made:
        with suppress(RuntimeError):  # it is closed already
            await one.close()


async def emptied(spool: Spool) -> list[Document]:
    """Take everything out of *spool*, oldest first."""
    documents: list[Document] = []
    while entry := await spool.oldest():
        documents += entry.documents
        await spool.remove(entry)
    return documents


async def numbers(spool: Spool) -> list[int]:
    return [number_of(document) for document in await emptied(spool)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def found(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def copied(folder: Path, other: Path) -> Path:
    """Copy the files of one spool, as they are now, to another folder; return where."""
    other.mkdir(exist_ok=True)
    for path in found(folder, "*.spool*"):
        shutil.copy(path, other)
    return other


# -- in and out


async def test_what_comes_out_is_what_went_in_oldest_first(make: MakeSpool, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    spool = make(counts=counts)
    batches = [batch(number) for number in range(20)]
    for groups in batches:
        assert await spool.keep(groups)
    given = [document for groups in batches for documents in groups.values() for document in documents]
    assert (spool.documents, spool.size_bytes) == (60, sum(len(document.raw) for document in given))
    assert counts == {"spooled": 60}
    assert await emptied(spool) == given
    assert (spool.documents, spool.size_bytes, spool.oldest_s) == (0, 0, 0)


async def test_there_is_no_file_while_there_is_nothing_in_it(make: MakeSpool, tmp_path: Path) -> None:
    spool = make()
    assert names(tmp_path) == []
    for number in range(3):
        await spool.keep(batch(number))
        (name,) = spool.files
        assert f"{name.partition('/')[2]}.spool" in names(tmp_path)
        assert await numbers(spool) == [number] * 3
        assert names(tmp_path) == []


async def test_the_oldest_moment_is_that_of_what_is_left(make: MakeSpool) -> None:
    spool = make()
    await spool.keep(batch(1))
    first_s = spool.oldest_s
    await spool.keep(batch(2))
    assert spool.oldest_s == first_s > 0
    for _ in range(2):  # a page and its items leave one after the other
        assert spool.oldest_s == first_s
        entry = await spool.oldest()
        assert entry
        await spool.remove(entry)
    assert spool.oldest_s > first_s


async def test_at_its_limit_it_takes_nothing_until_something_left(
    make: MakeSpool, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 5."""
    spool = make(limit_bytes=10_000)
    took = [await spool.keep(batch(number, 1000)) for number in range(6)]
    assert took == [True, True, True, False, False, False]
    assert spool.size_bytes < 10_000
    assert caplog.text.count("at its limit of 10,000 bytes") == 1
    entry = await spool.oldest()
    assert entry
    await spool.remove(entry)
    assert not await spool.keep(batch(7, 2000))
    assert await spool.keep(batch(8, 100))
    assert await numbers(spool) == [0, 0, 1, 1, 1, 2, 2, 2, 8, 8, 8]


async def test_the_file_does_not_grow_with_what_went_through_it(make: MakeSpool, tmp_path: Path) -> None:
    spool = make(limit_bytes=1_000_000)
    for number in range(60):
        await spool.keep(batch(number, 100_000))
        if number >= 2:
            for _ in range(2):
                entry = await spool.oldest()
                assert entry
                await spool.remove(entry)
    assert sum(path.stat().st_size for path in found(tmp_path, "*")) < 6_000_000


# -- durable


async def test_a_batch_is_on_the_disk_when_it_counts_as_durable(make: MakeSpool, tmp_path: Path) -> None:
    """Invariant 2: the files, as they are at that moment, hold it; and SQLite waits for the disk at each commit."""
    spool = make()
    for number in range(3):
        await spool.keep(batch(number))
        copy = copied(tmp_path, tmp_path / "copy")
    (path,) = found(copy, "*.spool")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT total(documents) FROM batches").fetchone() == (9,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    (file,) = spool._files
    assert file._open_connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"


_KEEPER = """
import asyncio, os, sys
from pathlib import Path
from crawler.storage.spool import Spool
from tests.unit.test_storage_spool import batch

async def main():
    spool = Spool(Path(sys.argv[1]), 1 << 20, lambda *_: None)
    for number in range(3):
        await spool.keep(batch(number))
        os.write(1, b"kept")
    os._exit(0)

asyncio.run(main())
"""


def test_each_batch_is_forced_to_the_disk_before_it_counts(tmp_path: Path) -> None:
    """Seen by the system: after the last write to SQLite's log, and before `keep` returns, the log is synced."""
    program, log = shutil.which("strace"), tmp_path / "strace.log"
    if program is None:
        pytest.skip("no strace on PATH")
    trace = [program, "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", log]
    done = subprocess.run([*trace, sys.executable, "-c", _KEEPER, tmp_path], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"strace may not look here: {done.stderr.decode()[-200:]}")
    calls = re.findall(
        r"(pwrite64|fsync|fdatasync)\(\d+<[^>]*\.spool-wal>|\b(write)\(1<[^>]*>, \"kept\"", log.read_text()
    )
    said = " ".join("kept" if kept else "write" if call == "pwrite64" else "sync" for call, kept in calls)
    assert said.count("kept") == 3
    assert re.fullmatch(r"(.*write (sync )+kept ?){3}", said), said


async def test_a_batch_that_was_torn_is_gone_and_those_before_it_are_there(make: MakeSpool, tmp_path: Path) -> None:
    """The machine lost power while the third batch was written."""
    spool = make()
    for number in range(2):
        await spool.keep(batch(number, 20_000))
    (log,) = found(tmp_path, "*.spool-wal")
    whole_bytes = log.stat().st_size
    await spool.keep(batch(2, 20_000))
    folder = copied(tmp_path, tmp_path / "torn")
    os.truncate(folder / log.name, (whole_bytes + log.stat().st_size) // 2)
    heir = Spool(folder, LIMIT, lambda *_: None)
    await heir.adopt()
    assert await numbers(heir) == [0, 0, 0, 1, 1, 1]
    assert names(folder) == []
    await heir.close()


# -- what may go wrong


async def left_behind(make: MakeSpool, folder: Path, batches: int) -> Path:
    """Return the file of a worker that is gone."""
    spool = make()
    for number in range(batches):
        await spool.keep(batch(number, 5000))
    await spool.close()
    (path,) = found(folder, "*.spool")
    return path


def overwrite(path: Path, offset: int, what: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(what)


async def test_a_damaged_batch_harms_only_itself(
    make: MakeSpool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = await left_behind(make, tmp_path, 10)
    whole = path.read_bytes()
    overwrite(path, whole.index(bson.encode({"n": 4})[4:10]) + 1000, b"other bytes")
    spool = make()
    await spool.adopt()
    assert set(await numbers(spool)) >= set(range(10)) - {4}
    assert spool.documents == 0
    assert names(tmp_path) == [f"{path.stem}.damaged"]
    assert caplog.text.count("is not what was written") == 1
    assert f"It is now {path.with_suffix('.damaged')}" in caplog.text
    assert b"other bytes" in (tmp_path / f"{path.stem}.damaged").read_bytes()


@pytest.mark.parametrize("damage", ["beginning", "end", "all"])
async def test_a_damaged_file_is_set_aside_and_the_spool_goes_on(
    make: MakeSpool, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    path = await left_behind(make, tmp_path, 10)
    if damage == "end":
        os.truncate(path, path.stat().st_size // 2)
    else:
        overwrite(path, 0, os.urandom(100 if damage == "beginning" else path.stat().st_size))
    spool = make()
    await spool.adopt()
    assert await numbers(spool) == []
    assert f"{path.stem}.damaged" in names(tmp_path)
    assert f"It is now {path.with_suffix('.damaged')}" in caplog.text
    assert await spool.keep(batch(1))
    await spool.adopt()
    assert await numbers(spool) == [1, 1, 1]
    assert not found(tmp_path, "*.spool*")


async def test_its_own_file_damaged_under_way(make: MakeSpool, tmp_path: Path) -> None:
    """What is left of it is set aside, and the next batch goes into a new one."""
    spool = make()
    for number in range(100):
        await spool.keep(batch(number, 20_000))
    (path,) = found(tmp_path, "*.spool")
    overwrite(path, 4096, os.urandom(path.stat().st_size - 4096))
    saved = await numbers(spool)
    assert saved == sorted(saved)
    assert found(tmp_path, "*.damaged")
    assert not found(tmp_path, "*.spool*")
    assert await spool.keep(batch(200))
    assert await numbers(spool) == [200] * 3


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """Have every file of this process end at a size, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_takes_nothing_and_gives_everything(
    make: MakeSpool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = make()
    with no_file_beyond(300_000):
        took = [await spool.keep(batch(number, 20_000)) for number in range(12)]
        assert took == sorted(took, reverse=True)
        kept = took.index(False)
        assert 2 <= kept < 12
        assert caplog.text.count("The spool takes no documents") == 1
        # Nothing can be noted as removed, either: the file goes as a whole.
        assert await numbers(spool) == [number for number in range(kept) for _ in range(3)]
        assert names(tmp_path) == []
        assert await spool.keep(batch(99, 20_000))
    assert await numbers(spool) == [99] * 3


async def test_a_disk_that_is_full_from_the_start(make: MakeSpool, tmp_path: Path) -> None:
    spool = make()
    with no_file_beyond(100):
        assert not await spool.keep(batch(0))
        assert not await spool.keep(batch(1))
    assert names(tmp_path) == []
    assert await spool.keep(batch(2))
    assert await numbers(spool) == [2] * 3


def test_a_folder_that_cant_be_one_stops_the_start(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(ConfigError, match=r"STORE_SPOOL_DIR=.*file: "):
        Spool.of(Config(store_spool_dir=str(taken)), lambda *_: None)


def test_without_a_folder_or_bytes_there_is_none(tmp_path: Path) -> None:
    assert Spool.of(Config(), lambda *_: None) is None
    assert Spool.of(Config(store_spool_dir=str(tmp_path), store_spool_bytes=0), lambda *_: None) is None


# -- adoption


async def test_the_file_of_a_living_worker_is_its_own(make: MakeSpool) -> None:
    living, other = make(), make()
    await living.keep(batch(1))
    await other.adopt()
    assert other.documents == 0
    assert await numbers(living) == [1] * 3


async def test_what_a_worker_left_goes_to_another(make: MakeSpool, tmp_path: Path) -> None:
    await left_behind(make, tmp_path, 4)
    heir = make()
    await heir.adopt()
    assert heir.documents == 12
    await heir.keep(batch(4))
    assert await numbers(heir) == [number for number in range(5) for _ in range(3)]
    assert names(tmp_path) == []


_VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from crawler.storage.spool import Spool
from tests.unit.test_storage_spool import batch

async def main():
    spool = Spool(Path(sys.argv[1]), 1 << 20, lambda *_: None)
    for number in range(4):
        await spool.keep(batch(number))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_killed_workers_file_is_adopted(make: MakeSpool, tmp_path: Path) -> None:
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", _VICTIM, str(tmp_path)], cwd=ROOT, check=False
    )
    assert died.returncode == -signal.SIGKILL
    heir = make()
    await heir.adopt()
    assert await numbers(heir) == [number for number in range(4) for _ in range(3)]
    assert names(tmp_path) == []


async def test_of_several_adopters_each_file_gets_one(make: MakeSpool, tmp_path: Path) -> None:
    """They look at the same moment, again and again, while files come and go."""
    adopters = [make() for _ in range(4)]
    for round_number in range(5):
        leavers = [make() for _ in range(10)]
        for number, leaver in enumerate(leavers):
            await leaver.keep(batch(100 * round_number + number))

        async def leave(ones: Sequence[Spool]) -> None:
            for one in ones:
                await one.close()

        async def take(adopter: Spool) -> list[int]:
            taken = []
            for _ in range(5):
                await adopter.adopt()
                taken += await numbers(adopter)
            return taken

        _, *by_each = await asyncio.gather(leave(leavers), *map(take, adopters))
        by_each.append(await take(adopters[0]))
        taken = Counter(number for of_one in by_each for number in of_one)
        assert taken == {100 * round_number + number: 3 for number in range(10)}
    assert names(tmp_path) == []


async def test_a_worker_at_its_limit_adopts_nothing(make: MakeSpool, tmp_path: Path) -> None:
    """So what is on the disk stays bounded, however often workers die while MongoDB is away."""
    path = await left_behind(make, tmp_path, 4)
    spool = make(limit_bytes=35_000)
    assert await spool.keep(batch(10, 11_000))
    await spool.adopt()
    assert len(spool.files) == 2, "there was room"
    assert not await spool.keep(batch(11, 5000)), "what was taken over counts"
    await spool.close()
    full = make(limit_bytes=20_000)
    assert await full.keep(batch(12, 6000))
    await full.adopt()
    await full.adopt()
    assert path.exists()
    assert len(full.files) == 2
    assert len(found(tmp_path, "*.spool")) == 3


@pytest.mark.parametrize("what", ["glob", "exists"])
async def test_a_disk_that_can_t_be_looked_at_harms_nothing_else(
    make: MakeSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    await left_behind(make, tmp_path, 1)
    heir = make()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, what, fail)
        await heir.adopt()
    assert "Can't take over a spool: " in caplog.text
    assert "Input/output error" in caplog.text
    await heir.adopt()
    assert await numbers(heir) == [0] * 3


async def test_a_file_that_vanished_between_look_and_lock_leaves_no_lock(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT, lambda *_: None)
    spool._adopt_one(tmp_path / "gone.spool")
    assert names(tmp_path) == []
    assert not spool.files
    await spool.close()


async def test_a_file_that_others_have_open_is_left_alone(make: MakeSpool, tmp_path: Path) -> None:
    """Somebody looks into it with sqlite3: later is soon enough."""
    path = await left_behind(make, tmp_path, 1)
    visitor = sqlite3.connect(path)
    visitor.execute("PRAGMA locking_mode = EXCLUSIVE")
    visitor.execute("BEGIN IMMEDIATE")
    spool = make()
    await spool.adopt()
    assert not spool.files
    visitor.rollback()
    visitor.close()
    await spool.adopt()
    assert await numbers(spool) == [0] * 3


def test_a_lock_is_one_mans(tmp_path: Path) -> None:
    path = tmp_path / "a.spool"
    first = SpoolFile.locked(path)
    assert first
    assert SpoolFile.locked(path) is None
    first.close()
    second = SpoolFile.locked(path)
    assert second
    second.close()
