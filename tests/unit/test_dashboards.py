"""The dashboards as files: current, of the right shape, and saying what every panel must say."""

from __future__ import annotations

import enum
import itertools
import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus

from grafana import reference
from grafana.boards import BOARDS
from grafana.dashboards import FOLDER, render
from grafana.pictures.questions import Window, answered
from grafana.thresholds import RULES, threshold_of

ROOT = Path(__file__).parents[2]
FILES = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels_of(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def misfits(value: Any, hint: Any, where: str = "") -> Iterator[str]:
    """Walk *value* along the SDK's type hints, and yield what does not fit them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = [list(misfits(value, arm, where)) for arm in arguments if arm is not type(None) or value is None]
        if all(found):
            yield min(found, key=len)[0]
    elif origin is list:
        if isinstance(value, list):
            for i, element in enumerate(value):
                yield from misfits(element, arguments[0], f"{where}/{i}")
        else:
            yield f"{where}: no list"
    elif origin is dict:
        if isinstance(value, dict):
            for key, element in value.items():
                yield from misfits(element, arguments[1], f"{where}/{key}")
        else:
            yield f"{where}: no object"
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{where}: {value!r} is none of {arguments}"
    elif hint in (Any, object):
        return
    elif hint is Dataquery:  # the SDK's word for "of whichever data source"
        yield from misfits(value, prometheus.Dataquery, where)
    elif issubclass(hint, enum.Enum):
        if value not in [member.value for member in hint]:
            yield f"{where}: {value!r} is no {hint.__name__}"
    elif hasattr(hint, "from_json"):
        yield from misfits_of_object(value, hint, where)
    elif not isinstance(value, (int, float) if hint is float else hint) or isinstance(value, bool) != (hint is bool):
        yield f"{where}: {value!r} is no {hint.__name__}"


def misfits_of_object(value: Any, hint: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: no object"
        return
    hints = typing.get_type_hints(hint)
    # Names that Python reserves end in `_val` there; the JSON is in camel case, mostly.
    hint_of = {name.removesuffix("_val").replace("_", "").lower(): hints[name] for name in hints}
    for key, element in value.items():
        if hint_for := hint_of.get(key.replace("_", "").lower()):
            yield from misfits(element, hint_for, f"{where}/{key}")
        else:
            yield f"{where}/{key}: unknown"


def test_the_committed_files_are_what_the_generator_writes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == render(), "run `python -m grafana.dashboards`"


def test_the_committed_reference_of_the_metrics_is_what_the_generator_writes() -> None:
    assert reference.PAGE.read_text() == reference.render(), "run `python -m grafana.reference`"


@pytest.mark.parametrize("name", FILES)
def test_the_json_fits_the_sdks_types(name: str) -> None:
    assert list(misfits(FILES[name], model.Dashboard)) == []


def test_the_walk_along_the_types_finds_faults() -> None:
    broken = json.loads(json.dumps(FILES["overview.json"]))
    broken["graphTooltip"] = 9
    broken["panels"][1]["gridPos"]["h"] = "eight"
    broken["panels"][1]["fieldConfig"]["defaults"]["unitt"] = "s"
    assert len(list(misfits(broken, model.Dashboard))) >= 2
    assert len(list(misfits(broken["panels"][1], model.Panel))) == 2


@pytest.mark.parametrize("name", FILES)
def test_every_panel_says_what_it_means_and_in_which_unit(name: str) -> None:
    for panel in panels_of(FILES[name]):
        about = f"{name}: {panel.get('title')}"
        assert panel["title"], name
        assert len(panel["description"]) >= 15, about
        assert panel["fieldConfig"]["defaults"]["unit"], about
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"]), about


@pytest.mark.parametrize("name", FILES)
def test_panels_have_numbers_and_places_of_their_own(name: str) -> None:
    panels = FILES[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        cell
        for place in (panel["gridPos"] for panel in panels)
        for cell in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)


def test_dashboards_have_addresses_of_their_own_and_overview_comes_first() -> None:
    uids = [dashboard["uid"] for dashboard in FILES.values()]
    assert sorted(uids) == sorted(f"seedbed-{board.name}" for board in BOARDS)
    assert BOARDS[0].name == "overview"
    assert all(dashboard["editable"] is False for dashboard in FILES.values())


def test_every_dashboard_is_described_with_its_picture() -> None:
    described = (ROOT / "docs/dashboards.md").read_text()
    for board in BOARDS:
        assert f"](pictures/{board.name}.png)" in described
        assert (ROOT / f"docs/pictures/{board.name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", FILES)
def test_a_picture_asks_for_each_panel_at_its_time_with_no_variable_left(name: str) -> None:
    asked = []

    def ask(path: str, query: str, **times: float) -> dict[str, Any]:
        asked.append((path, query))
        assert times == ({"time": 4000.0} if path == "query" else {"start": 3000, "end": 4000.0, "step": 3})
        return {"result": [query]}

    answers = answered(FILES[name], ask, Window(3001.0, 4000.0, 3))["answers"]
    assert {panel: len(found) for panel, found in answers.items()} == {
        panel["id"]: len(panel["targets"]) for panel in panels_of(FILES[name])
    }
    assert [query for _, query in asked if "$" in query] == []
    assert ("query" in {path for path, _ in asked}) == any(
        target.get("instant") for panel in panels_of(FILES[name]) for target in panel["targets"]
    )


def test_a_panel_turns_its_alerts_color_where_its_alert_fires() -> None:
    coloured = 0
    for panel in itertools.chain.from_iterable(map(panels_of, FILES.values())):
        _, _, alert = panel["description"].rpartition("Alert: ")
        if alert == panel["description"]:
            continue
        threshold = threshold_of(alert.rstrip("."))
        step = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]
        assert step["value"] == (threshold.value or 1e-9), alert
        assert threshold.color in {step["color"], panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["color"]}
        coloured += 1
    assert coloured >= 8


def test_a_panel_without_an_alert_may_say_from_where_on_to_look_closer() -> None:
    limits = {"Largest key": 512 << 20, "Delayed fsyncs": 1e-9, "Dirty cache": 0.2}
    panels = {panel["title"]: panel for panel in itertools.chain.from_iterable(map(panels_of, FILES.values()))}
    for title, value in limits.items():
        shown = panels[title]["fieldConfig"]["defaults"]
        assert shown["thresholds"]["steps"][1] == {"color": "orange", "value": value}, title
        assert shown["custom"]["thresholdsStyle"]["mode"] == "dashed", title


def test_thresholds_are_the_numbers_in_the_rules() -> None:
    assert threshold_of("ErrorRatioHigh") == (0.2, True, "orange")
    assert threshold_of("RedisRefusesWrites") == (0.98, True, "red")
    assert threshold_of("MongoDown") == (0.0, False, "red")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_leads_to_a_runbook_and_a_dashboard(alert: dict[str, Any]) -> None:
    told = alert["annotations"]
    assert set(told) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert alert["labels"]["severity"] in {"page", "ticket", "none"}
    runbook = ROOT / told["runbook_url"]
    assert runbook.name == f"{alert['alert']}.md"
    headings = [line for line in runbook.read_text().splitlines() if line.startswith("#")]
    assert headings == [f"# {alert['alert']}", "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]
    uid = told["dashboard_url"].partition("/d/")[2].partition("?")[0]
    assert uid in {dashboard["uid"] for dashboard in FILES.values()}


def test_every_runbook_belongs_to_an_alert() -> None:
    assert {path.stem for path in ROOT.glob("docs/runbooks/*.md")} == {alert["alert"] for alert in ALERTS}


def test_provisioning_is_read_only_and_knows_the_scrape_interval() -> None:
    [provider] = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/seedbed.yml").read_text())["providers"]
    assert (provider["allowUiUpdates"], provider["disableDeletion"], provider["folderUid"]) == (False, True, "seedbed")
    [source] = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    scraping = yaml.safe_load((ROOT / "prometheus/prometheus.yml").read_text())["global"]
    assert source["jsonData"]["timeInterval"] == scraping["scrape_interval"]
    assert source["uid"] == "seedbed-prometheus"
