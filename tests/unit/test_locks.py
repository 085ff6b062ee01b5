"""The lock files agree with pyproject.toml and with each other, and name no place to download from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]

#: Each lock, and the extra that it adds to the dependencies.
LOCKS = {"runtime": None, "embedded": "embedded", "dev": "dev"}


def declared(extra: str | None) -> dict[str, Requirement]:
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(extra, ())]
    wanted: dict[str, Requirement] = {
        canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)
    }
    if own := wanted.pop(canonicalize_name(PROJECT["name"]), None):
        for other in own.extras:
            wanted |= declared(other)
    return wanted


def entries(lock: str) -> dict[str, str]:
    """Give each pinned package's part of a lock file: pin, marker, hashes and the packages that want it."""
    text = ROOT.joinpath("requirements", f"{lock}.txt").read_text()
    parts = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    return {canonicalize_name(part.partition("==")[0]): part for part in parts}


def pin(entry: str) -> Requirement:
    return Requirement(entry.partition("\\")[0])


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_current(lock: str) -> None:
    wanted, locked = declared(LOCKS[lock]), entries(lock)
    direct = {name for name, entry in locked.items() if f"{PROJECT['name']} (pyproject.toml)" in entry}
    assert direct == set(wanted), "run `make lock`"
    for name, requirement in wanted.items():
        [version] = pin(locked[name]).specifier
        assert requirement.specifier.contains(version.version, prereleases=True), f"run `make lock`: {requirement}"
        assert (requirement.marker is None) == (pin(locked[name]).marker is None), f"run `make lock`: {requirement}"


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_by_hash_and_names_no_place(lock: str) -> None:
    for name, entry in entries(lock).items():
        assert pin(entry).url is None
        assert entry.count("--hash=sha256:"), name
    text = ROOT.joinpath("requirements", f"{lock}.txt").read_text()
    assert not re.search(r"://|^ *-(?!-hash=)", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("smaller", "larger"), [("runtime", "embedded"), ("embedded", "dev")])
def test_larger_lock_holds_the_smaller(smaller: str, larger: str) -> None:
    large = entries(larger)
    assert {name: str(pin(entry)) for name, entry in entries(smaller).items()}.items() <= {
        name: str(pin(entry)) for name, entry in large.items()
    }.items()
