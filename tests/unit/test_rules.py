"""Prometheus's configuration and rules, by its own tool: each alert has one case that fires and one that is silent."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2] / "prometheus"
TESTS = sorted(ROOT.glob("tests/*.yml"))


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        assert not os.environ.get("CI"), "promtool is missing"
        pytest.skip("no promtool on PATH")
    return found


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_is_sound(promtool: str) -> None:
    run(promtool, "check", "config", ROOT / "prometheus.yml")


def test_the_rules_are_sound(promtool: str) -> None:
    run(promtool, "check", "rules", "--lint-fatal", *sorted(ROOT.glob("rules/*.yml")))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_only_then(promtool: str, path: Path) -> None:
    run(promtool, "test", "rules", path)


def test_no_alert_is_left_out() -> None:
    rules = yaml.safe_load((ROOT / "rules" / "alerts.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    fired = {
        sample["labels"].partition('alertname="')[2].partition('"')[0]
        for path in TESTS
        for test in yaml.safe_load(path.read_text())["tests"]
        for query in test["promql_expr_test"]
        for sample in query["exp_samples"]
    }
    assert alerts <= fired


def test_alertmanager_silences_only_alerts_that_exist() -> None:
    rules = yaml.safe_load((ROOT / "rules" / "alerts.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    config = yaml.safe_load((ROOT / "alertmanager.yml").read_text())
    for rule in config["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            assert set(matcher.split("=", 1)[1].strip('~ "').split("|")) <= alerts, matcher
