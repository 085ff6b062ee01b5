"""How a command that starts no crawl begins and ends: it reads the settings, and answers, or says why it could not."""

import argparse
import sys
from abc import abstractmethod
from typing import TextIO

import msgspec
from scrapy.commands import ScrapyCommand

from crawler.config import Config
from crawler.errors import SeedbedError


class ProjectCommand(ScrapyCommand):
    """Frame a command; it stands outside of `crawler.commands`, where Scrapy takes every such class for a command."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - Scrapy's own attribute

    #: How it is called, and what it does, in a line.
    usage: str
    summary: str
    #: Errors that are told in words; any other is a defect, and shows its traceback.
    told: tuple[type[Exception], ...] = (SeedbedError,)

    def syntax(self) -> str:
        """Return how it is called."""
        return self.usage

    def short_desc(self) -> str:
        """Return what it does, in a line."""
        return self.summary

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what all take; a command adds its own first, as --json is the last in its help."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do the work; the exit code is 2 when it could not be done."""
        self._json = opts.json
        try:
            self.work(args, opts)
        except self.told as error:
            self.fail(error)

    @abstractmethod
    def work(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do the work. Raises UsageError, and what is *told*."""

    def config(self) -> Config:
        """Read the project's settings and the environment. Raises ConfigError."""
        return Config.from_settings(self.settings) if self.settings else Config.from_environ()

    def answer(self, outcome: object, text: object, file: TextIO | None = None) -> None:
        """Print the *outcome* for programs, or the *text* for people, to *file* (default: standard output)."""
        print(msgspec.json.encode(outcome).decode() if self._json else text, file=file)

    def fail(self, why: object, exitcode: int = 2) -> None:
        """Say why it could not be done."""
        print(f"seedbed: {why}", file=sys.stderr)
        self.exitcode = exitcode
