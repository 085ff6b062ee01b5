"""The report of a run: one HTML file that needs nothing else, for bright and for dark screens."""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from bench.charts import chart
from bench.frame import Figure, Figures, Part
from bench.parts import PARTS
from bench.results import ABOUT, Results, figures_of_part
from bench.tables import number, pivoted

_STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def report(results: Results, parts: Mapping[str, Part] = PARTS) -> str:
    """Return the whole page."""
    about = results[ABOUT]
    body = [*_head(results), *(line for name in parts if name in results for line in _part(parts[name], results))]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Seedbed: load test of {escape(about['began'])}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _head(results: Results) -> Iterator[str]:
    about = results[ABOUT]
    yield "<h1>Seedbed: load test</h1>"
    yield "<dl>"
    facts = {
        "began": f"{about['began']}, took {about['took_s']:,} s"
        + (", quick: few rounds on little data" * about["quick"]),
        "machine": f"{about['processor']}, {about['cores']} cores, {about['system']}",
        "busy before": f"load {about['load_before']} (what else ran then; above half the cores, figures scatter)",
        "versions": ", ".join(f"{name} {version}" for name, version in about["versions"].items()),
        "figures": "the median of the rounds, and in brackets the lowest and the highest. A ratio is the median of the "
        "rounds' own ratios, so that what slows a whole round down cancels",
    }
    for name, text in facts.items():
        yield f"<dt>{name}</dt><dd>{escape(text)}</dd>"
    yield "</dl>"
    if about["notes"]:
        yield "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in about["notes"]) + "</ul>"


def _part(part: Part, results: Results) -> Iterator[str]:
    figures = figures_of_part(results, part.name)
    yield f'<h2 id="{part.name}">{escape(part.title)}</h2>\n<p class="how">{escape(part.how)}</p>'
    yield from (chart(described, figures) for described in part.charts)
    yield from _table(figures)
    yield '<dl class="meanings">'
    for name, meaning in part.meanings.items():
        yield f"<dt><code>{escape(name)}</code></dt><dd>{escape(meaning)}</dd>"
    yield "</dl>"


def _table(figures: Figures) -> Iterator[str]:
    peers, alone = pivoted(figures)
    if peers:
        rows, columns = peers, _columns(peers)
        if len(columns) > len(rows):  # a page is higher than wide
            rows = {
                column: {peer: found[column] for peer, found in peers.items() if column in found} for column in columns
            }
            columns = _columns(rows)
        yield '<div class="table"><table>'
        yield "<tr><th>" + "".join(f"<th>{escape(column)}" for column in columns)
        for name, found in rows.items():
            cells = "".join(f"<td>{_value(found[column])}" if column in found else "<td>" for column in columns)
            yield f"<tr><th>{escape(name)}{cells}"
        yield "</table></div>"
    if alone:
        yield '<div class="table"><table>'
        yield from (f"<tr><th>{escape(name)}<td>{_value(figure)}" for name, figure in alone.items())
        yield "</table></div>"


def _columns(rows: Mapping[str, Figures]) -> list[str]:
    return list(dict.fromkeys(column for found in rows.values() for column in found))


def _value(figure: Figure) -> str:
    if figure.low == figure.high:
        return number(figure.value)
    return f'{number(figure.value)}<span class="dim">({number(figure.low)} to {number(figure.high)})</span>'
