"""The alerts' thresholds, for panels: read from the rules, which are the only place that holds them."""

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RULES = Path(__file__).parent.parent / "prometheus" / "rules" / "alerts.yml"

#: How a value looks that has its alert fire, by the alert's severity.
COLORS = {"page": "red", "ticket": "orange"}


class Threshold(NamedTuple):
    """Hold what a value must pass for its alert to fire."""

    value: float
    #: Whether the alert fires above it (or else below, or at it).
    is_upper: bool
    color: str


@cache
def threshold_of(alert: str) -> Threshold:
    """Return the threshold of *alert*: the first number after a comparison in its expression.

    Raises KeyError when there is no such alert, and ValueError when its expression compares nothing.
    """
    rule = _alerts()[alert]
    found = re.search(r"(==|!=|<=?|>=?)\s*(-?[\d.]+)", rule["expr"])
    if found is None:
        raise ValueError(f"{alert}: its expression compares nothing with a number")
    return Threshold(float(found[2]), found[1] in {">", ">=", "!="}, COLORS[rule["labels"]["severity"]])


@cache
def _alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}
