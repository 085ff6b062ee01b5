"""The deployment's monitoring as it stands, but twenty times faster and with somebody to call."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.stack.stack import ROOT, Stack, until

#: By what the durations of rules and notifications are divided: minutes become a few seconds.
SPEED = 20
#: Prometheus's own clock. A scrape must not take longer, and the exporter waits 2 s for a MongoDB that is away.
SCRAPE_S, EVALUATE_S = 5, 1
#: What a fault and its end may take to show, on a machine with much else to do.
PATIENCE_S = 120

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: Where a rule's expression says how far it looks back.
_LOOKS_BACK = re.compile(r"(?<=\[)\w+(?=\])|(?<=offset )\w+")
_WAITS = ("group_wait", "group_interval", "repeat_interval")


def faster(duration: str) -> str:
    """Give a duration of one unit, shortened."""
    return f"{int(duration[:-1]) * _UNITS_S[duration[-1]] // SPEED}s"


def faster_rules(rules: dict[str, Any]) -> dict[str, Any]:
    """Give a file of rules with its durations shortened."""
    groups = [group | {"rules": [_faster_rule(rule) for rule in group["rules"]]} for group in rules["groups"]]
    return rules | {"groups": groups}


def _faster_rule(rule: dict[str, Any]) -> dict[str, Any]:
    wait = {"for": faster(rule["for"])} if "for" in rule else {}
    return rule | {"expr": _LOOKS_BACK.sub(lambda found: faster(found[0]), rule["expr"])} | wait


def without_durations(rules: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the rules of a file, with nothing in the place of their durations."""
    return [
        {**rule, "expr": _LOOKS_BACK.sub("", rule["expr"]), "for": "for" in rule}
        for group in rules["groups"]
        for rule in group["rules"]
    ]


def faster_route(route: dict[str, Any]) -> dict[str, Any]:
    """Give a route of Alertmanager's with its waits shortened, and so those below it."""
    waits = {name: faster(route[name]) for name in _WAITS if name in route}
    return route | waits | {"routes": [faster_route(below) for below in route.get("routes", [])]}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def _write_config(folder: Path) -> None:
    folder.joinpath("prometheus/rules").mkdir(parents=True)
    for path in ROOT.glob("prometheus/rules/*.yml"):
        folder.joinpath("prometheus/rules", path.name).write_text(yaml.safe_dump(faster_rules(read(path))))
    config = read(ROOT / "prometheus/prometheus.yml")
    config["global"] = {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s"}
    config["global"]["evaluation_interval"] = f"{EVALUATE_S}s"
    folder.joinpath("prometheus/prometheus.yml").write_text(yaml.safe_dump(config))
    config = read(ROOT / "prometheus/alertmanager.yml")
    config["route"] = faster_route(config["route"])
    config["receivers"] = [
        receiver | {"webhook_configs": [{"url": f"http://receiver:8080/{receiver['name']}"}]}
        for receiver in config["receivers"]
    ]
    folder.joinpath("alertmanager.yml").write_text(yaml.safe_dump(config))
    # The containers read it under users of their own.
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


class Watch:
    """Say which alerts Prometheus fires, what Alertmanager makes of them, and who was called."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def firing(self, alert: str) -> list[dict[str, Any]]:
        """Give what Prometheus says of an alert that fires, once for each set of labels."""
        alerts = self._stack.prometheus("alerts")["alerts"]
        return [found for found in alerts if found["labels"]["alertname"] == alert and found["state"] == "firing"]

    def told(self, state: str) -> set[str]:
        """Give the alerts that Alertmanager holds in a state, active or suppressed; all but the one that always is."""
        alerts = json.loads(self._stack.get("alertmanager", "/api/v2/alerts"))
        return {found["labels"]["alertname"] for found in alerts if found["status"]["state"] == state} - {"Watchdog"}

    def calls(self) -> set[tuple[str, str, str]]:
        """Give who was called of what: (receiver, firing or resolved, alert)."""
        lines = self._stack.compose("logs", "--no-log-prefix", "receiver").splitlines()
        calls = [json.loads(line) for line in lines if line.startswith("{")]
        return {(call["receiver"], status, alert) for call in calls for status, alert in call["alerts"]}

    def fires(self, alert: str, summary: str, **labels: str) -> None:
        """Wait until an alert fires and somebody is called, of this thing and of nothing else."""
        until(lambda: self.firing(alert) and alert in self.told("active"), PATIENCE_S, self.shown)
        named = [
            (found["annotations"]["summary"], {name: found["labels"].get(name) for name in labels})
            for found in self.firing(alert)
        ]
        assert named == [(summary, labels)]
        # One that is over before its group is due to be told is never told.
        until(lambda: ("firing", alert) in {call[1:] for call in self.calls()}, PATIENCE_S, self.shown)

    def suppresses(self, *alerts: str) -> None:
        """Wait until alerts fire, and Alertmanager keeps them to itself."""
        until(lambda: self.told("suppressed").issuperset(alerts), PATIENCE_S, self.shown)

    def clears(self, *alerts: str) -> None:
        """Wait until alerts are over, for Prometheus and for Alertmanager."""

        def left() -> set[str]:
            fire = {alert for alert in alerts if self.firing(alert)}
            return (fire | self.told("active") | self.told("suppressed")) & set(alerts)

        until(lambda: not left(), PATIENCE_S, self.shown)

    def shown(self) -> str:
        """Tell all of it, for a test that fails."""
        fire = [alert["labels"] | {"state": alert["state"]} for alert in self._stack.prometheus("alerts")["alerts"]]
        return f"Prometheus: {fire}; Alertmanager: {self.told('active')}, suppressed {self.told('suppressed')}"


@contextmanager
def watching(stack: Stack, folder: Path) -> Iterator[Watch]:
    """Have the deployment watched so, and afterwards as before."""
    _write_config(folder)
    before = stack.environment
    files = before.get("COMPOSE_FILE", "compose.yaml")
    stack.environment = before | {
        "COMPOSE_FILE": os.pathsep.join((files, "tests/stack/compose.alerts.yaml")),
        "WATCH_DIR": str(folder),
    }
    try:
        # One after the other: a Prometheus that finds no Alertmanager has an alert about that.
        stack.compose("up", "--detach", "--no-deps", "receiver", "alertmanager")
        until(lambda: _is_ready(stack, "alertmanager"))
        stack.compose("up", "--detach", "--no-deps", "prometheus")
        until(lambda: _is_ready(stack, "prometheus"))
        until(lambda: stack.prometheus("alertmanagers")["activeAlertmanagers"])
        yield Watch(stack)
    finally:
        stack.compose("rm", "--stop", "--force", "receiver")
        stack.environment = before
        stack.make("up", "WORKERS=2")  # and whatever a test that failed has left stopped


def _is_ready(stack: Stack, service: str) -> bool:
    try:
        return bool(stack.get(service, "/-/ready"))
    except OSError:
        return False
