"""What every part of the benchmarks is built on: its description, its figures, and rounds in which peers alternate."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.progress import Progress

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
#: The deployment's own settings of Redis.
REDIS_CONF = ROOT / "redis.conf"


class Figure(NamedTuple):
    """Hold a measured value: the median of the rounds, and the lowest and the highest of them."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Figure":
        """Sum up rounds."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found))


#: What a part measured: `peer.name_unit` -> value.
Figures = dict[str, Figure]
#: What one run of one peer measured: `name_unit` -> value.
Run = Mapping[str, float]


@dataclass(frozen=True)
class Bars:
    """Draw one figure of several peers side by side."""

    title: str
    #: The figure's name, behind the peer's.
    figure: str
    #: Peer -> how people call it.
    peers: Mapping[str, str]


@dataclass(frozen=True)
class Curve:
    """Draw figures against a number in their names."""

    title: str
    x_title: str
    #: Name of a line -> pattern of its figures' names, {} for the number.
    lines: Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """Describe one part of the benchmarks."""

    name: str
    title: str
    #: How it is measured, for whoever doubts it.
    how: str
    measure: "Callable[[Bench], Figures]"
    #: End of a figure's name -> what it means and how it was counted.
    meanings: Mapping[str, str]
    charts: Sequence[Bars | Curve] = ()


@dataclass
class Bench:
    """Hold what the parts of one run are told, and the display that they report to."""

    progress: Progress
    quick: bool = False
    #: Also what takes an hour and ten gigabytes.
    large: bool = False
    #: Real addresses to measure seeds on, one a line, perhaps gzipped.
    urls: Path | None = None
    #: What could not be measured, and why; the report says it.
    notes: list[str] = field(default_factory=list)

    def choose(self, usual: T, quick: T) -> T:
        """Return what this run is to take."""
        return quick if self.quick else usual

    def steps(self, steps: Sequence[T], describe: Callable[[T], str] = str) -> Iterator[T]:
        """Go through *steps*, and show which one is under way."""
        task = self.progress.add_task("", total=len(steps))
        for step in steps:
            self.progress.update(task, description=describe(step))
            yield step
            self.progress.advance(task)
        self.progress.remove_task(task)

    def in_turns(self, rounds: int, ways: Mapping[str, Callable[[], Run]]) -> dict[str, list[Run]]:
        """Run all *ways* in each round, every round beginning with another one; return each one's runs."""
        names, runs = list(ways), {name: list[Run]() for name in ways}
        turns = [(number, name) for number in range(rounds) for name in _rotated(names, number)]
        for _, name in self.steps(turns, lambda turn: f"round {turn[0] + 1} of {rounds}: {turn[1]}"):
            runs[name].append(ways[name]())
        return runs


def figures_of(runs: Mapping[str, Sequence[Run]]) -> Figures:
    """Return the figures of all peers."""
    return {
        f"{peer}.{name}": Figure.of(run[name] for run in of_peer)
        for peer, of_peer in runs.items()
        for name in of_peer[0]
    }


def ratio(runs: Mapping[str, Sequence[Run]], name: str, ours: str, theirs: str) -> Figure:
    """Return how many times *theirs* a figure of *ours* is, round by round: what slows a whole round down cancels."""
    return Figure.of(a[name] / b[name] for a, b in zip(runs[ours], runs[theirs], strict=True))


def _rotated(names: Sequence[str], by: int) -> list[str]:
    start = by % len(names)
    return [*names[start:], *names[:start]]
