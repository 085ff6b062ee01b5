"""Answers for a person's terminal: aligned columns, and numbers that can be read."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return lines with aligned columns; numbers are set to the right."""
    lines = [tuple(header), *(tuple(_cell(value) for value in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    numeric = [all(_is_number(line[i]) for line in lines[1:]) and len(lines) > 1 for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").lstrip("-").isdigit()


def duration(seconds: float) -> str:
    """Return a time span as a person says it: `4 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for size, unit, digits in ((86_400, "days", 1), (3600, "h", 1), (60, "min", 0)):
        if seconds >= size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"
