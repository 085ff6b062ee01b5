"""`scrapy archive` in processes of its own: what it does, says, and leaves when it is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bench.demo.worker import ROOT
from crawler.storage.archive.move import Moved
from crawler.storage.archive.place import Place
from crawler.storage.archive.records import PageWriter
from tests.archives import DAY, Pages, content, fill, noise, page, pages

__all__ = ["pages"]


@pytest.fixture
def archive(environ: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-W", "error", "-m", "scrapy", "archive", *arguments]
        variables = environ | {"ARCHIVE_URL": str(tmp_path / "archive")}
        return subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, timeout=60, check=False)

    return run


def test_the_command_moves_lists_shows_and_restores(
    archive: Callable[..., subprocess.CompletedProcess[bytes]], pages: Pages, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    before = fill(pages, *(page(number, crawled_at=now - number * DAY) for number in range(1, 61)))
    dry = archive("--older-than", "40d", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.startswith(b"21 pages would be moved")
    moved = archive("--json")  # ARCHIVE_AFTER_DAYS
    assert moved.returncode == 0, moved.stderr
    outcome = msgspec.json.decode(moved.stdout, type=Moved)
    assert outcome.pages == 31
    assert outcome.files[0].encode() in archive("--list").stdout
    assert len(archive("--list", "--url", "https://example.org/45").stdout.splitlines()) == 2
    assert archive("--list", "--url", "https://example.org/2").returncode == 1
    assert archive("--show", "https://example.org/45").stdout == page(45).body
    assert archive("--show", "https://example.org/2").returncode == 1
    kept = tmp_path / "body"
    described = archive("--show", "https://example.org/45", "--json", "--output", str(kept))
    assert msgspec.json.decode(described.stdout)["url"] == "https://example.org/45"
    assert kept.read_bytes() == page(45).body
    assert archive("--restore", "https://example.org/45", outcome.files[0]).stdout == (
        b"31 pages put back; 1 were there already.\n"
    )
    assert content(pages) == before


def test_the_command_says_what_is_wrong(archive: Callable[..., subprocess.CompletedProcess[bytes]]) -> None:
    for arguments, code, words in (
        (("--older-than", "soon"), 2, b"'soon' is no point in time"),
        (("--older-than", "2999-01-01"), 2, b"a point of the past"),
        (("--restore", "https://example.org/x"), 2, b"not in the archive"),
        (("--list", "--to", "nowhere://x"), 2, b"nowhere"),
    ):
        told = archive(*arguments)
        said = told.stdout + told.stderr
        assert (told.returncode, words in said, b"Traceback" in said) == (code, True, False), said


def test_a_run_that_is_stopped_tidies_up(
    environ: dict[str, str], pages: Pages, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    before = fill(pages, *(page(number, body=noise(number, 30_000)) for number in range(1, 1500)))
    command = [sys.executable, "-W", "error", "-m", "scrapy", "archive", "--to", str(tmp_path / "archive")]
    command += ["--older-than", "1s"]
    with subprocess.Popen(command, env=environ, cwd=ROOT, stderr=subprocess.PIPE, text=True) as run:
        eventually(lambda: list(tmp_path.glob("archive/*.open")))
        run.send_signal(signal.SIGINT)
        assert run.stderr
        said = run.stderr.read()
    assert (run.returncode, said) == (
        130,
        "seedbed: stopped; files that were complete stay, and MongoDB has all other pages\n",
    )
    assert list((tmp_path / "archive").iterdir()) == []
    assert content(pages) == before


def test_a_file_under_way_is_told_of(
    archive: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path
) -> None:
    with Place(str(tmp_path / "archive")).writing("pages-1.warc.gz.open") as stream:
        PageWriter(stream, "pages-1.warc.gz")
    assert b"pages-1.warc.gz.open" in archive("--dry-run").stderr
