"""The results of one run as data: one object a part, figures with units in their names; and where they are kept."""

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.frame import Figure, Figures
from bench.servers import ServerError, find_mongo, find_redis

FOLDER = Path(__file__).parent / "results"

#: Beside the parts: what was run on which machine, and the spread of each figure over the rounds.
ABOUT, SPREAD = "about", "spread"

_PACKAGES = ("scrapy", "scrapy-redis", "redis", "pymongo", "twisted")

Results = dict[str, dict[str, Any]]


def conditions(*, quick: bool) -> dict[str, Any]:
    """Return what the figures depend on besides the code."""
    return {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 1),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
            "redis-server": _server(lambda: str(find_redis())),
            "mongo-server": _server(lambda: str(find_mongo())),
        },
    }


def assemble(about: Mapping[str, Any], parts: Mapping[str, Figures]) -> Results:
    """Return all results as they are written."""
    results: Results = {ABOUT: dict(about)}
    spread: dict[str, Any] = {}
    for part, figures in parts.items():
        results[part] = {}
        for name, figure in figures.items():
            _put(results[part], name, _rounded(figure.value))
            if figure.low != figure.high:
                spread[f"{part}.{name}"] = [_rounded(figure.low), _rounded(figure.high)]
    results[SPREAD] = spread
    return results


def flat(results: Results) -> Iterator[tuple[str, float]]:
    """Give each figure with its whole name: `crawl.ours.pages_per_s`."""
    for part in results:
        if part not in (ABOUT, SPREAD):
            yield from _flattened(part, results[part])


def figures_of_part(results: Results, part: str) -> Figures:
    """Return the figures of one part with their spread."""
    found = {}
    for name, value in _flattened(part, results[part]):
        low, high = results[SPREAD].get(name, (value, value))
        found[name.removeprefix(f"{part}.")] = Figure(value, low, high)
    return found


def keep(results: Results, report: str, folder: Path = FOLDER) -> Path:
    """Write results and report into a folder of their own, to which `latest` points then; return it."""
    began = datetime.fromisoformat(results[ABOUT]["began"])
    place = folder / began.strftime("%Y-%m-%dT%H-%M-%SZ")
    place.mkdir(parents=True, exist_ok=True)
    write(results, place / "results.json")
    (place / "report.html").write_text(report, encoding="utf-8")
    latest = folder / "latest"
    if latest.is_symlink():
        latest.unlink()
    elif latest.exists():  # a copy, where links can't be made
        shutil.rmtree(latest)
    try:
        latest.symlink_to(place.name, target_is_directory=True)
    except OSError:
        shutil.copytree(place, latest)
    return place


def write(results: Results, path: Path) -> None:
    """Write results as JSON."""
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def _put(target: dict[str, Any], name: str, value: float) -> None:
    *parents, last = name.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
    target[last] = value


def _flattened(prefix: str, found: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flattened(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}", value


def _rounded(value: float) -> float:
    """Keep four digits, and whole numbers whole."""
    return int(value) if value == int(value) else float(f"{value:.4g}") if abs(value) < 10_000 else round(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _server(find: Any) -> str:
    try:
        return str(find())
    except ServerError:
        return "none"
