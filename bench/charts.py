"""Figures as inline SVG: bars side by side, and curves; colours come from the page's style."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from bench.frame import Bars, Curve, Figure, Figures
from bench.tables import number

WIDTH = 720
_LABELS, _VALUES = 245, 110
_BAR, _GAP = 22, 12
_HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 264, 70, 44, 12, 40
#: About as wide is one of an axis's labels.
_DIGIT = 8

Point = tuple[float, Figure]


def chart(described: Bars | Curve, figures: Figures) -> str:
    """Return a chart as SVG; empty when there is nothing to draw."""
    return _bars(described, figures) if isinstance(described, Bars) else _curve(described, figures)


def _bars(bars: Bars, figures: Figures) -> str:
    found = {
        title: figures[f"{peer}.{bars.figure}"]
        for peer, title in bars.peers.items()
        if f"{peer}.{bars.figure}" in figures
    }
    if not found:
        return ""
    longest = max(figure.high for figure in found.values()) or 1.0
    scale = (WIDTH - _LABELS - _VALUES) / longest
    rows = []
    for place, (title, figure) in enumerate(found.items()):
        y = place * (_BAR + _GAP)
        middle = y + _BAR / 2
        end = _LABELS + figure.value * scale
        kind = "ours" if "Seedbed" in title else "peer"
        rows += [
            f'<text class="label" x="{_LABELS - 10}" y="{middle}">{escape(title)}</text>',
            f'<rect class="{kind}" x="{_LABELS}" y="{y}" width="{max(end - _LABELS, 1):.1f}" height="{_BAR}" rx="3"/>',
            *_whisker(figure, scale, middle),
            f'<text x="{max(end, _LABELS + figure.high * scale) + 8:.1f}" y="{middle}">{number(figure.value)}</text>',
        ]
    return _svg(bars.title, len(found) * (_BAR + _GAP), rows)


def _whisker(figure: Figure, scale: float, middle: float) -> Iterator[str]:
    if figure.low != figure.high:
        low, high = (_LABELS + value * scale for value in (figure.low, figure.high))
        path = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 5}v10M{high:.1f} {middle - 5}v10"
        yield f'<path class="whisker" d="{path}"/>'


def _curve(curve: Curve, figures: Figures) -> str:
    lines = {title: sorted(_points(pattern, figures)) for title, pattern in curve.lines.items()}
    lines = {title: points for title, points in lines.items() if points}
    if not lines:
        return ""
    xs = sorted({x for points in lines.values() for x, _ in points})
    top = _round_up(max(figure.high for points in lines.values() for _, figure in points))
    wide, high = WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + wide * x / (xs[-1] or 1), _TOP + high * (1 - y / top)

    parts = list(_grid(xs, top, place))
    for order, (title, points) in enumerate(lines.items()):
        path = "L".join("{:.1f} {:.1f}".format(*place(x, figure.value)) for x, figure in points)
        parts.append(f'<path class="line line{order}" d="M{path}"/>')
        for x, figure in points:
            cx, cy = place(x, figure.value)
            label = f"{title}: {number(figure.value)} at {number(x)}"
            parts.append(
                f'<circle class="dot{order}" cx="{cx:.1f}" cy="{cy:.1f}" r="4"><title>{escape(label)}</title></circle>'
            )
        parts += _key(order, title)
    parts.append(f'<text class="axis" x="{_LEFT + wide / 2}" y="{_HEIGHT - 8}">{escape(curve.x_title)}</text>')
    return _svg(curve.title, _HEIGHT, parts)


def _points(pattern: str, figures: Figures) -> Iterator[Point]:
    before, _, after = pattern.partition("{}")
    for name, figure in figures.items():
        middle = name.removeprefix(before).removesuffix(after)
        if name.startswith(before) and name.endswith(after) and middle.isdigit():
            yield int(middle), figure


def _grid(xs: Sequence[float], top: float, place: Callable[[float, float], tuple[float, float]]) -> Iterator[str]:
    for step in range(5):
        value = top * step / 4
        _, y = place(0, value)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>'
        yield f'<text class="label" x="{_LEFT - 8}" y="{y:.1f}">{number(value)}</text>'
    last = -math.inf
    for x in xs:
        at, y = place(x, 0)
        text = number(x)
        if at - last > max(_DIGIT * len(text), 28):
            yield f'<text class="axis" x="{at:.1f}" y="{y + 16:.1f}">{text}</text>'
            last = at


def _key(order: int, title: str) -> Iterator[str]:
    y = _TOP + 8 + order * 18
    yield f'<rect class="dot{order}" x="{_LEFT + 12}" y="{y - 5}" width="10" height="10" rx="2"/>'
    yield f'<text x="{_LEFT + 28}" y="{y}">{escape(title)}</text>'


def _round_up(value: float) -> float:
    """Return the next value that divides well by four."""
    unit = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(unit * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if unit * step >= value)


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )
