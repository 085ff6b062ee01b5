"""docs/keyspace.md names exactly the keys that there are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from crawler.frontier.keys import SPIDERS, SPOOLS, Keys, shared_value

PAGE = Path(__file__).parents[2] / "docs" / "keyspace.md"
#: Not a key, but what all begin with.
PREFIX = "base"


def keys_there_are() -> set[str]:
    keys = Keys.of("<spider>")
    names = {SPIDERS, SPOOLS, shared_value("<namespace>", "<kind>", "<name>")}
    for name, member in vars(Keys).items():
        if isinstance(member, property) and name != PREFIX:
            names.add(getattr(keys, name))
        elif inspect.isfunction(member) and not name.startswith("_"):
            placeholders = [f"<{parameter}>" for parameter in list(inspect.signature(member).parameters)[1:]]
            names.add(getattr(keys, name)(*placeholders))
    return names


def test_the_page_names_exactly_the_keys_that_there_are() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Keys\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)) == keys_there_are()


def test_the_commands_of_the_page_are_about_such_keys() -> None:
    patterns = [re.escape(name).replace("<spider>", "[^}]+") for name in keys_there_are()]
    patterns = [re.sub(r"<\w+>", "[^ ]+", pattern) for pattern in patterns]
    section = PAGE.read_text(encoding="utf-8").partition("\n## To look inside\n")[2]
    commands = re.findall(r"`([A-Z][A-Z.]+ [^`]*)`", section)
    keys = [word for command in commands for word in command.split() if word.startswith(("{", "seedbed"))]
    assert len(keys) >= 10
    for key in keys:
        assert any(re.fullmatch(pattern, key) for pattern in patterns), key
