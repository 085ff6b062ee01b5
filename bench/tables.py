"""The figures as a table in the terminal: a row a peer, a column a figure."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bench.frame import Figure, Figures, Part


def tables(part: Part, figures: Figures) -> Iterator[RenderableType]:
    """Give a table of the figures of peers, and a line for each that stands alone."""
    peers, alone = pivoted(figures)
    columns = list(dict.fromkeys(column for found in peers.values() for column in found))
    table = Table(title=part.title, title_justify="left", title_style="bold")
    table.add_column("")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for peer, found in peers.items():
        table.add_row(peer, *(shown(found[column]) if column in found else "" for column in columns))
    if peers:
        yield table
    for name, figure in alone.items():
        yield Text.from_markup(f"  {name.replace('_', ' ')}: [bold]{shown(figure)}")


def pivoted(figures: Figures) -> tuple[dict[str, Figures], Figures]:
    """Return the figures of each peer, and those that belong to none."""
    peers: dict[str, Figures] = {}
    alone: Figures = {}
    for name, figure in figures.items():
        peer, dot, column = name.rpartition(".")
        if dot:
            peers.setdefault(peer, {})[column] = figure
        else:
            alone[name] = figure
    return peers, alone


def shown(figure: Figure) -> str:
    """Return a figure for people, and by how much the rounds differ from it at most."""
    if figure.low == figure.high or not figure.value:
        return number(figure.value)
    spread = max(figure.high / figure.value - 1, 1 - figure.low / figure.value)
    return f"{number(figure.value)} [dim]±{spread:.0%}[/]"


def number(value: float) -> str:
    """Return a number with the three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if value == int(value):
        return str(int(value))
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"
