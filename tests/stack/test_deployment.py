"""The deployment as it stands: healthy from the first start, confined, configured, and watched."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stack.stack import ROOT, Stack, until

pytestmark = pytest.mark.stack


def names(containers: list[dict[str, Any]]) -> list[str]:
    return sorted(container["Config"]["Labels"]["com.docker.compose.service"] for container in containers)


def flat(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Give nested settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return found


def test_every_service_works_from_the_first_start(stack: Stack) -> None:
    """Field case M11."""
    services = yaml.safe_load(ROOT.joinpath("compose.yaml").read_text())["services"]
    # The others are run by targets of the Makefile, and end.
    started = {name for name, service in services.items() if "demo" in service.get("profiles", ["demo"])}
    assert set(names(stack.containers())) == started
    for container in stack.containers():
        name, state = container["Name"], container["State"]
        assert container["RestartCount"] == 0, name
        if "mongo-setup" in name:
            assert (state["Status"], state["ExitCode"]) == ("exited", 0)
        elif "redis-exporter" in name:  # its image holds nothing to check with
            assert state["Status"] == "running"
        else:
            assert state["Health"]["Status"] == "healthy", name


def test_every_container_is_confined(stack: Stack) -> None:
    for container in stack.containers():
        name, host = container["Name"], container["HostConfig"]
        assert re.fullmatch(r"[1-9]\d*:\d+", container["Config"]["User"]), name
        assert host["ReadonlyRootfs"], name
        assert host["CapDrop"] == ["ALL"], name
        assert not host["CapAdd"], name
        assert not host["Privileged"], name
        assert "no-new-privileges:true" in host["SecurityOpt"], name
        assert host["Memory"] > 0, name
        assert host["PidsLimit"] > 0, name
        assert host["LogConfig"]["Config"]["max-size"], name
        for published in (host["PortBindings"] or {}).values():
            assert [binding["HostIp"] for binding in published] == ["127.0.0.1"], name


def test_every_process_is_nobody_special(stack: Stack) -> None:
    """What the kernel says counts: an image's entry point may become root again."""
    for container in stack.containers():
        if not container["State"]["Running"]:
            continue
        pids = stack.run("docker", "top", container["Id"], "-eo", "pid").stdout.split()[1:]
        assert pids
        for pid in pids:
            status = dict(re.findall(r"^(\w+):\t(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
            assert "0" not in status["Uid"].split(), container["Name"]
            assert int(status["CapEff"], 16) == 0, container["Name"]
            assert int(status["CapPrm"], 16) == 0, container["Name"]
            assert status["NoNewPrivs"] == "1", container["Name"]


def test_no_secret_shows_from_outside(stack: Stack) -> None:
    secrets = {path.name: path.read_text() for path in stack.secrets_dir.iterdir()}
    image = stack.run("docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", "seedbed:test").stdout
    shown = str(stack.containers()) + image + stack.compose("config")
    assert [name for name, secret in secrets.items() if secret in shown] == []


def test_networks_keep_apart_what_need_not_meet(stack: Stack) -> None:
    networks = {
        name: {network.rpartition("_")[2] for network in container["NetworkSettings"]["Networks"]}
        for name, container in zip(names(stack.containers()), _sorted(stack.containers()), strict=True)
    }
    assert {name for name, joined in networks.items() if "egress" in joined} == {"worker", "alertmanager", "site"}
    assert {name for name, joined in networks.items() if "front" in joined} == {"grafana", "prometheus"}
    assert "data" not in networks["prometheus"] | networks["grafana"] | networks["alertmanager"] | networks["site"]


def _sorted(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(containers, key=lambda container: container["Config"]["Labels"]["com.docker.compose.service"])


def test_redis_conf_is_in_force(stack: Stack) -> None:
    lines = [line.split(maxsplit=1) for line in ROOT.joinpath("redis.conf").read_text().splitlines()]
    wanted = {line[0]: line[1].strip('"') for line in lines if line and line[0] != "#"}
    assert len(wanted) > 10
    wanted["maxmemory"] = str(512 << 20)
    # A line with the name, a line with the value, which may be empty; in any order.
    answer = stack.redis("exporter", "CONFIG", "GET", *wanted).split("\n")
    assert dict(zip(answer[::2], answer[1::2], strict=True)) == wanted


def test_mongod_conf_is_in_force(stack: Stack) -> None:
    in_force = stack.mongo("""
print(json.dumps({
    "parsed": system.admin.command("getCmdLineOpts")["parsed"],
    "commit_ms": system.admin.command("getParameter", journalCommitInterval=1)["journalCommitInterval"],
    "cache_bytes": system.admin.command("serverStatus")["wiredTiger"]["cache"]["maximum bytes configured"],
    "oplog_bytes": system.local.command("collStats", "oplog.rs")["maxSize"],
}))
""")
    wanted = flat(yaml.safe_load(ROOT.joinpath("mongod.conf").read_text()))
    parsed = flat(in_force["parsed"])
    assert {name: parsed.get(name) for name in wanted} == wanted
    assert in_force["commit_ms"] == wanted["storage.journal.commitIntervalMs"]
    assert in_force["oplog_bytes"] == wanted["replication.oplogSizeMB"] << 20
    assert in_force["cache_bytes"] == 512 << 20


def test_prometheus_has_every_target_up(stack: Stack) -> None:
    jobs = {"worker": len(stack.containers("worker")), "exporter": 1, "redis": 1, "prometheus": 1, "alertmanager": 1}
    until(lambda: stack.targets() == {job: ["up"] * count for job, count in jobs.items()})
    until(lambda: stack.by_instance("redis_up") == {"redis-exporter:9121": 1})
    until(lambda: min(stack.by_instance("min by (instance) (crawler_collector_success)").values(), default=0) == 1)


def test_what_is_looked_at_answers_on_this_machine(stack: Stack) -> None:
    assert stack.get("grafana", "/api/health")
    assert stack.get("prometheus", "/-/ready")
    assert stack.get("alertmanager", "/-/ready")


def test_a_worker_that_finds_no_redis_ends_and_says_so(stack: Stack) -> None:
    """Field case R9."""
    wrong = ("-e", "REDIS_URL=redis://nowhere:6379/0")
    done = stack.run("docker", "compose", "run", "--rm", "--no-deps", "-T", *wrong, "worker", check=False)
    assert done.returncode not in (0, 137)
    assert "nowhere:6379" in done.stdout + done.stderr
    assert "REDIS_URL" in done.stdout + done.stderr


def test_mongos_health_check_is_red_without_a_server(stack: Stack) -> None:
    alone = ("run", "--rm", "--no-deps", "-T", "--entrypoint", "bash", "mongo", "/mongo-health.sh")
    assert stack.run("docker", "compose", *alone, check=False).returncode not in (0, 125, 126, 127)
