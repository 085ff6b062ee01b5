"""What became slower or fatter since an older run, figure by figure, as a ratio."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table

from bench.results import SPREAD, Results, flat
from bench.tables import number

#: Ends of names of figures of which more is better; of all others less is.
_MORE_IS_BETTER = ("_per_s", "_per_day", ".workers", "capacity.pages_per_day")
#: Ends of names of figures that do not depend on how busy the machine is: a change of these is a change of the code.
_STEADY = (
    "bytes_per_seed",
    "bytes_per_url",
    "commands_per_page",
    "request_bytes_per_page",
    "lost_pages",
    "doubled_documents",
)
#: A change that is smaller than this is none.
TOLERANCE = 1.05


@dataclass(frozen=True)
class Change:
    """Hold how one figure changed; a ratio above 1 is for the worse."""

    name: str
    old: float
    new: float
    worse: float
    #: Noise does not explain it: the figure is a steady one, or the two runs' rounds do not overlap.
    is_sure: bool


def changes(old: Results, new: Results) -> Iterator[Change]:
    """Give all figures that both runs have and that changed, the worst first."""
    before = dict(flat(old))
    found = []
    for name, value in flat(new):
        if name not in before or value == before[name]:
            continue
        better, worse = (value, before[name]) if _more_is_better(name) else (before[name], value)
        ratio = worse / better if better else float("inf")
        if not 1 / TOLERANCE < ratio < TOLERANCE:
            found.append(Change(name, before[name], value, ratio, _is_sure(name, old, new)))
    yield from sorted(found, key=lambda change: -change.worse)


def steady_losses(old: Results, new: Results) -> list[Change]:
    """Return the steady figures that became worse."""
    return [change for change in changes(old, new) if change.name.endswith(_STEADY) and change.worse > 1]


def table(old: Results, new: Results) -> Table:
    """Return what changed, for people."""
    shown = Table(title=f"Since {old['about']['began']}", title_justify="left")
    for column in ("figure", "before", "now", "", "sure"):
        shown.add_column(column, justify="left" if column == "figure" else "right")
    for change in changes(old, new):
        verdict = f"[red]{change.worse:.2f}x worse" if change.worse > 1 else f"[green]{1 / change.worse:.2f}x better"
        sure = "yes" if change.is_sure else "within the noise"
        shown.add_row(change.name, number(change.old), number(change.new), verdict, sure)
    return shown


def _more_is_better(name: str) -> bool:
    return name.endswith(_MORE_IS_BETTER) or ".ratio_" in name


def _is_sure(name: str, old: Results, new: Results) -> bool:
    if name.endswith(_STEADY):
        return True
    if name not in old[SPREAD] or name not in new[SPREAD]:
        return False
    (old_low, old_high), (new_low, new_high) = old[SPREAD][name], new[SPREAD][name]
    return bool(new_low > old_high or new_high < old_low)
