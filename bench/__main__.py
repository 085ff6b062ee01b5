"""The load tests: `python -m bench` measures, shows tables, and keeps a report and the figures."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import compare
from bench.frame import Bench, Figures
from bench.parts import PARTS
from bench.report import report
from bench.results import assemble, conditions, keep, write
from bench.servers import ServerError
from bench.tables import tables
from crawler.errors import SeedbedError

console = Console(highlight=False)


def main() -> int:
    """Run the benchmarks; 0 when all could be measured, and nothing that is steady is worse than it was."""
    arguments = _arguments()
    about = conditions(quick=arguments.quick)
    began_s = time.monotonic()
    try:
        measured, notes, complete = _measure(arguments)
    except KeyboardInterrupt:
        return 130
    results = assemble(about | {"took_s": round(time.monotonic() - began_s), "notes": notes}, measured)
    place = keep(results, report(results))
    if arguments.json:
        write(results, arguments.json)
    for note in notes:
        console.print(f"Note: {note}")
    console.print(f"\nReport:  {place / 'report.html'}\nFigures: {place / 'results.json'}")
    if arguments.compare:
        old = json.loads(arguments.compare.read_text(encoding="utf-8"))
        console.print(compare.table(old, results))
        complete &= not compare.steady_losses(old, results)
    return 0 if complete else 1


def _measure(arguments: argparse.Namespace) -> tuple[dict[str, Figures], list[str], bool]:
    """Return the figures of each part, notes, and whether all parts could be measured."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    measured: dict[str, Figures] = {}
    complete = True
    with Progress(*columns, console=console, transient=True) as progress:
        bench = Bench(progress, quick=arguments.quick, large=arguments.large, urls=arguments.urls)
        for part in bench.steps([PARTS[name] for name in arguments.only], lambda part: f"[bold]{part.name}"):
            if not console.is_terminal:
                console.print(f"{part.name}: {part.title}")
            try:
                measured[part.name] = part.measure(bench)
            except (ServerError, SeedbedError, RuntimeError, OSError) as error:
                complete = False
                bench.notes.append(f"{part.name} could not be measured: {error}")
                continue
            for table in tables(part, measured[part.name]):
                console.print(table)
    return measured, bench.notes, complete


def _arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PART", default=list(PARTS), choices=list(PARTS), help=_list())
    parser.add_argument("--quick", action="store_true", help="fewer rounds on smaller data: under three minutes")
    parser.add_argument("--large", action="store_true", help="also filters of 100 million URLs: an hour, and 10 GB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="say what changed since those figures")
    parser.add_argument("--urls", type=Path, metavar="FILE", help="real addresses, one a line, to measure seeds on")
    return parser.parse_args(given)


def _list() -> str:
    return "only these: " + "; ".join(f"{part.name} ({part.title.lower()})" for part in PARTS.values())


if __name__ == "__main__":
    sys.exit(main())
