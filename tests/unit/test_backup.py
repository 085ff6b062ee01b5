"""`make backup` and `make restore` with a stand-in for Docker: what is run, what is kept, and what is refused.

mongodump and mongorestore themselves can't be had where these tests run; that the accounts may do what those do is
tested against a real mongod (tests/integration/test_storage_setup.py).
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DUMP = gzip.compress(b"a dump of mongodump" * 1000)

#: Notes its arguments, takes what comes in, and gives or fails as the test says.
DOCKER = """#!/bin/bash
echo "$*" >>"$LOG"
case " $* " in
  *" ps "*) cat "$FOLDER/workers" 2>/dev/null || true; exit 0 ;;
  *" backup "*) cat "$FOLDER/dump"; exit "${DUMP_EXIT:-0}" ;;
  *" restore "*) cat >"$FOLDER/restored"; exit "${RESTORE_EXIT:-0}" ;;
  *" backup-note "*) exit "${NOTE_EXIT:-0}" ;;
esac
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    programs = tmp_path / "bin"
    programs.mkdir()
    programs.joinpath("docker").write_text(DOCKER)
    programs.joinpath("docker").chmod(0o755)
    tmp_path.joinpath("dump").write_bytes(DUMP)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": f"{programs}:{os.environ['PATH']}", "FOLDER": str(tmp_path), "LOG": str(tmp_path / "log")}
        command = ["make", "--no-print-directory", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environ | variables, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def commands(tmp_path: Path) -> list[str]:
    log = tmp_path / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_a_backup_is_a_file_with_its_time_in_its_name_and_noted(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    done = run("backup", f"TO={folder}")
    assert done.returncode == 0, done.stderr
    [path] = folder.iterdir()
    assert re.fullmatch(r"seedbed-\d{8}T\d{6}Z\.archive\.gz", path.name)
    assert path.read_bytes() == DUMP
    assert path.stat().st_mode & 0o077 == 0
    prefix = "compose --profile * run --rm --no-deps -T"
    assert commands(tmp_path) == [
        f"{prefix} backup",
        f"{prefix} backup-note python -m crawler.storage.maintenance {path.name} {len(DUMP)}",
    ]


@pytest.mark.parametrize("fault", ["exit", "cut", "empty"])
def test_a_dump_that_is_not_whole_is_not_kept_and_not_noted(run: Run, tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "kept"
    if fault != "exit":
        tmp_path.joinpath("dump").write_bytes(DUMP[:-9] if fault == "cut" else b"")
    done = run("backup", f"TO={folder}", DUMP_EXIT="3" if fault == "exit" else "0")
    assert done.returncode != 0
    assert "nothing is kept" in done.stderr
    assert list(folder.iterdir()) == []
    assert [command for command in commands(tmp_path) if "note" in command] == []


def test_a_backup_that_can_not_be_noted_is_kept_and_told(run: Run, tmp_path: Path) -> None:
    done = run("backup", f"TO={tmp_path / 'kept'}", NOTE_EXIT="1")
    assert done.returncode != 0
    assert "is complete, but could not be noted" in done.stderr
    [path] = (tmp_path / "kept").iterdir()
    assert path.read_bytes() == DUMP


def test_a_restore_takes_the_file_and_makes_the_accounts_anew(run: Run, tmp_path: Path) -> None:
    done = run("restore", f"FROM={tmp_path / 'dump'}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "restored").read_bytes() == DUMP
    assert [command.rpartition("-T ")[2] for command in commands(tmp_path)[1:]] == ["restore", "mongo-setup"]


def test_a_restore_is_refused_while_workers_run_and_of_a_damaged_file(run: Run, tmp_path: Path) -> None:
    tmp_path.joinpath("workers").write_text("0123\n")
    assert "docker compose stop worker" in run("restore", f"FROM={tmp_path / 'dump'}").stderr
    tmp_path.joinpath("workers").unlink()
    tmp_path.joinpath("dump").write_bytes(DUMP[:-9])
    assert "nothing was touched" in run("restore", f"FROM={tmp_path / 'dump'}").stderr
    assert "can't be read" in run("restore", "FROM=nowhere").stderr
    assert "which backup?" in run("restore").stderr
    assert not (tmp_path / "restored").exists()


def test_a_restore_that_fails_is_told(run: Run, tmp_path: Path) -> None:
    done = run("restore", f"FROM={tmp_path / 'dump'}", RESTORE_EXIT="1")
    assert done.returncode != 0
    assert "mongorestore failed (exit code 1)" in done.stderr
    assert not [command for command in commands(tmp_path) if "mongo-setup" in command]


#: Shows its arguments, and the file of settings that they name.
TOOL = """#!/bin/bash
printf '%s\\n' "$@"
sed -n p "${1#--config=}"
"""


@pytest.mark.parametrize(
    ("script", "secret", "given", "password", "options"),
    [
        (
            "mongo-dump.sh",
            "mongo_backup",
            'it\'s "a\\b"',
            "password: 'it''s \"a\\b\"'",
            {"--oplog", "--username=backup"},
        ),
        ("mongo-restore.sh", "mongo_keyfile", "ab\ncd\n", "password: 'abcd'", {"--drop", "--oplogReplay"}),
    ],
)
def test_the_tools_get_their_passwords_in_a_file(
    tmp_path: Path, script: str, secret: str, given: str, password: str, options: set[str]
) -> None:
    """The scripts as they run in MongoDB's image, with the folders of a container moved here."""
    for name in ("mongodump", "mongorestore"):
        tmp_path.joinpath(name).write_text(TOOL)
        tmp_path.joinpath(name).chmod(0o755)
    tmp_path.joinpath(secret).write_text(given)
    text = (ROOT / "deploy" / script).read_text()
    text = text.replace("/run/secrets", str(tmp_path)).replace(">/tmp", f">{tmp_path}").replace("=/tmp", f"={tmp_path}")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", text], env=environ, capture_output=True, text=True, timeout=60, check=True)
    *arguments, login = done.stdout.splitlines()
    assert login == password
    assert options | {"--gzip", "--archive", "--host=rs0/mongo:27017"} <= set(arguments)
    assert not [argument for argument in arguments if "password" in argument or given.strip() in argument]
    assert (tmp_path / "login.yaml").stat().st_mode & 0o077 == 0
