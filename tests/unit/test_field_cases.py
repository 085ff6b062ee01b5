"""Every field case is answered: docs/field-cases.md names tests that exist and say so, or a page."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "field-cases.md"

NUMBERS = {
    "L": (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 15, 16, 17),
    "I": (1, 2, 4, 5, 6, 7, 8, 10, 11),
    "S": (1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 13, 14, 15, 17, 20, 21, 22, 23, 24),
    "K": (1, 2, 3, 4, 6, 7, 9),
    "O": (1, 2, 4, 5, 6, 8),
    "D": (1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14),
    "R": (1, 2, 4, 6, 8, 9),
    "M": (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12),
    "V": (1, 2, 3, 4, 6, 7),
}
IDS = [f"{kind}{number}" for kind, numbers in NUMBERS.items() for number in numbers]


def rows() -> dict[str, str]:
    """Give each id's line of the tables, without the id."""
    return dict(re.findall(r"^\| ([A-Z]\d+) (\|.*\|)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def named_tests(row: str) -> list[str]:
    return re.findall(r"`([\w/]+\.py::\w+)`", row)


@cache
def carried() -> dict[str, set[str]]:
    """Give each test, as `folder/file.py::name`, with the ids in its name and its docstring."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                ids = re.findall(r"(?<=_)[a-z]\d{1,2}(?=_|$)", node.name)
                ids += re.findall(r"\b[LISKODRMV]\d{1,2}\b", ast.get_docstring(node) or "")
                test = f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}"
                found[test] |= {one.upper() for one in ids}
    return found


def test_every_case_has_its_line() -> None:
    assert list(rows()) == IDS


def test_every_line_names_a_test_or_a_page_or_is_said_to_be_open() -> None:
    said = re.search(r"^Not covered yet: (.*)\.$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert said
    is_open = [one for one, row in rows().items() if not named_tests(row) and not re.search(r"\]\(", row)]
    assert said[1] == (", ".join(is_open) or "none")


@pytest.mark.parametrize("case", IDS)
def test_the_tests_that_are_named_carry_the_id(case: str) -> None:
    tests = carried()
    for test in named_tests(rows()[case]):
        assert test in tests, f"there is no {test}"
        assert case in tests[test], f"{test} does not say that it is for {case}"


def test_every_id_that_a_test_carries_is_a_case() -> None:
    unknown = {test: ids - set(IDS) for test, ids in carried().items() if ids - set(IDS)}
    assert unknown == {}


def test_every_answer_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    answers = re.findall(r"^\*\*([A-Z]\d+)\*\* ", text, re.MULTILINE)
    assert answers == [case for case in sorted(IDS, key=lambda c: (c[0], int(c[1:]))) if "(#answers)" in rows()[case]]


def test_v6_r4_the_versions_on_the_page_are_those_of_the_package() -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| ([\w-]+) \| `([^`]+)` \|", page, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = dict(re.findall(r"^([\w-]+)(.*)$", "\n".join(project["dependencies"]), re.MULTILINE))
    assert stated.pop("Python") == project["requires-python"]
    assert stated == {name: ranges[name] for name in ("scrapy", "scrapy-redis", "redis", "pymongo")}
