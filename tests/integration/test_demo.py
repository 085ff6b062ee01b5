"""`make demo`: what it says, and that it fails, when there is nothing to show."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from bench.demo.worker import ROOT


def _demo(environ: dict[str, str], data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.demo", "--data", str(data), *arguments]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("site", ["nonsense", "docs.example.org", "ftp://a.example/", "http://"])
def test_an_address_that_is_none_is_refused(environ: dict[str, str], tmp_path: Path, site: str) -> None:
    done = _demo(environ, tmp_path / "demo", "--site", site)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"demo: --site {site}: an address such as https://docs.example.org/ is wanted\n"


def test_a_folder_that_can_t_be_made_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _demo(environ, tmp_path / "file" / "demo")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert str(tmp_path / "file") in done.stderr


def test_a_site_of_which_nothing_was_stored_is_a_failure_with_its_reason(
    environ: dict[str, str], tmp_path: Path
) -> None:
    done = _demo(environ, tmp_path / "demo", "--site", "http://127.0.0.1:1/", "--workers", "1")
    assert done.returncode == 1
    assert "demo: nothing of http://127.0.0.1:1/ was stored. Set aside: given up: Connection was refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_folder_of_a_demo_that_runs_is_left_alone(environ: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "demo"
    (data / "redis").mkdir(parents=True)
    with (tmp_path / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _demo(environ, data)
    assert done.returncode == 1
    assert f"another demo works in {data}" in done.stderr
    assert (data / "redis").exists()
