"""What several commands share: how they end, points in time, and how far they have come."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any

import pytest

from crawler.command import ProjectCommand
from crawler.commands import progress
from crawler.commands.moments import moment
from crawler.commands.progress import Progress
from crawler.errors import SeedbedError

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Counting(ProjectCommand):
    """A command that counts to two, or fails."""

    usage = summary = ""
    failure: Exception | None = None

    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        if self.failure:
            raise self.failure
        self.answer([1, 2], "one, two")


@pytest.mark.parametrize(("is_json", "answer"), [(False, "one, two\n"), (True, "[1,2]\n")])
def test_an_answer_is_text_or_json(capsys: pytest.CaptureFixture[str], is_json: bool, answer: str) -> None:
    command = Counting()
    command.run([], argparse.Namespace(json=is_json))
    assert (command.exitcode, capsys.readouterr()) == (0, (answer, ""))


def test_an_error_is_told_in_words_and_a_defect_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    command = Counting()
    command.failure = SeedbedError("no such number")
    command.run([], argparse.Namespace(json=True))
    assert (command.exitcode, capsys.readouterr()) == (2, ("", "seedbed: no such number\n"))
    command.failure = OSError("no such file")
    with pytest.raises(OSError, match="no such file"):
        command.run([], argparse.Namespace(json=True))
    command.told = (SeedbedError, OSError)
    command.run([], argparse.Namespace(json=True))
    assert capsys.readouterr().err == "seedbed: no such file\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("30d", NOW - timedelta(days=30)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("2w", NOW - timedelta(days=14)),
        ("90m", NOW - timedelta(minutes=90)),
        ("0s", NOW),
        ("2026-11-29", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29T13:30Z", datetime(2026, 11, 29, 13, 30, tzinfo=UTC)),
        ("2026-11-29T13:30+02:00", datetime(2026, 11, 29, 11, 30, tzinfo=UTC)),
    ],
)
def test_a_point_in_time_is_a_span_or_a_date(text: str, named: datetime) -> None:
    assert moment(text, NOW) == named


@pytest.mark.parametrize("text", ["", "soon", "30", "-3d", "d", "30 d", "2026-13-01", "99999999999d", "9" * 400 + "w"])
def test_what_is_no_point_in_time_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="no point in time"):
        moment(text, NOW)


class Terminal(io.StringIO):
    """A standard error that is a terminal, or is not."""

    def __init__(self, *, is_live: bool) -> None:
        super().__init__()
        self._is_live = is_live

    def isatty(self) -> bool:
        return self._is_live


def told(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal, seconds: Iterator[float], *, is_alone: bool = True
) -> None:
    """Count to five, at the given times."""

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return next(seconds)

    monkeypatch.setattr(progress, "time", Clock)
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(is_alone=is_alone) as shown:
        shown.total = 5
        for number in range(1, 6):
            shown.tell(number, "pages")
        shown.tell(1, "pages again")


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_live=False)
    told(monkeypatch, terminal, iter([1.0, 20.0, 31.0, 40.0, 62.0, 99.0]))
    assert terminal.getvalue() == "3 of 5 pages, 0/s\n5 of 5 pages, 0/s\n"


def test_a_terminal_gets_a_line_that_lives_and_is_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_live=True)
    told(monkeypatch, terminal, chain([0.0, 0.1, 1.0, 1.1], repeat(2.0)))
    wiped = "\r\x1b[K"
    assert terminal.getvalue() == f"{wiped}3 of 5 pages, 3/s{wiped}5 of 5 pages, 2/s{wiped}"


def test_no_line_lives_among_what_goes_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_live=True)
    told(monkeypatch, terminal, chain([0.0, 0.1, 1.0, 1.1], repeat(2.0)), is_alone=False)
    assert terminal.getvalue() == ""


def test_short_work_says_nothing_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_live=False)
    clock: Any = repeat(0.0)
    told(monkeypatch, terminal, clock)
    assert terminal.getvalue() == ""
