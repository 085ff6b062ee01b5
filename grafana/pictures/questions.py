"""What a dashboard's panels ask Prometheus, and what it answers: all that is needed to draw it."""

from collections.abc import Callable
from typing import Any, NamedTuple

#: Asks Prometheus's HTTP API: a path and its parameters.
Ask = Callable[..., Any]


class Window(NamedTuple):
    """Hold the time that is looked at, in seconds since 1970, and how often Prometheus scrapes."""

    start_s: float
    end_s: float
    scrape_interval_s: int

    @property
    def step_s(self) -> int:
        """Give the time between two points of a curve: Grafana has one a pixel, but no more than there are samples."""
        return max(self.scrape_interval_s, int((self.end_s - self.start_s) / 500))


def answered(dashboard: dict[str, Any], ask: Ask, window: Window) -> dict[str, Any]:
    """Give the dashboard with the answers to its panels' queries, as the page that draws it wants them."""
    return {
        "dashboard": dashboard,
        "from_ms": int(window.start_s * 1000),
        "to_ms": int(window.end_s * 1000),
        "step_ms": window.step_s * 1000,
        "answers": {
            panel["id"]: {target["refId"]: _answer(target, ask, window) for target in panel["targets"]}
            for panel in dashboard["panels"]
            if panel["type"] != "row"
        },
        "annotations": [
            _ask_range(annotation["expr"], ask, window)
            for annotation in dashboard["annotations"]["list"]
            if "expr" in annotation  # the others are Grafana's own
        ],
    }


def _answer(target: dict[str, Any], ask: Ask, window: Window) -> Any:
    if target.get("instant"):
        return ask("query", query=_filled_in(target["expr"], window), time=window.end_s)["result"]
    return _ask_range(target["expr"], ask, window)


def _ask_range(expr: str, ask: Ask, window: Window) -> Any:
    # Grafana's points lie at multiples of the step.
    start_s = window.start_s // window.step_s * window.step_s
    times = {"start": start_s, "end": window.end_s, "step": window.step_s}
    return ask("query_range", query=_filled_in(expr, window), **times)["result"]


def _filled_in(expr: str, window: Window) -> str:
    """Put in what Grafana puts in for its variables, with "All" for the spider."""
    rate_interval_s = max(window.step_s + window.scrape_interval_s, 4 * window.scrape_interval_s)
    variables = {
        "$__rate_interval": f"{rate_interval_s}s",
        "$__range": f"{int(window.end_s - window.start_s)}s",
        "$spider": ".+",
    }
    for variable, value in variables.items():
        expr = expr.replace(variable, value)
    return expr
