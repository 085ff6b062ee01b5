"""What the deployment is made of, without an engine: secrets, Redis's accounts, and what Compose hands to whom."""

import json
import re
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.commands.core import CoreCommands

from crawler.config import Config, ScrapySettings
from deploy.init import DRAWN, USERS, make_secrets, redis_acl

ROOT = Path(__file__).parents[2]

#: Methods of redis-py -> the commands that they send, where the names differ.
ALIASES = {"delete": "del", "register_script": "evalsha", "execute_command": ""}
#: What a client needs before it says anything of its own; redis-py sends some of it by itself.
CONNECTION = {"auth", "hello", "ping", "select", "client|setinfo", "client|setname"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(ROOT.joinpath("compose.yaml").read_text())["services"]
    return services


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- the secrets


def test_secrets_are_shielded_by_the_folder_and_readable_within(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make_secrets(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}


def test_a_second_init_changes_nothing(tmp_path: Path) -> None:
    assert make_secrets(tmp_path)
    before = snapshot(tmp_path)
    assert make_secrets(tmp_path) == []
    assert snapshot(tmp_path) == before


def test_init_makes_what_is_missing_and_keeps_the_rest(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    before = snapshot(tmp_path)
    tmp_path.joinpath("mongo_worker").unlink()
    assert make_secrets(tmp_path) == ["mongo_worker"]
    after = snapshot(tmp_path)
    assert after.pop("mongo_worker") != before.pop("mongo_worker")
    assert after == before


def test_a_new_password_is_in_the_accounts_after_the_next_init(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    chosen = tmp_path / "redis_exporter"
    chosen.chmod(0o600)
    chosen.write_text("my own")
    assert make_secrets(tmp_path) == ["redis_acl", "redis_exporter_json"]
    assert f"#{sha256(b'my own').hexdigest()} " in tmp_path.joinpath("redis_acl").read_text()
    assert json.loads(tmp_path.joinpath("redis_exporter_json").read_text()) == {"redis://exporter@redis:6379": "my own"}


def test_two_deployments_share_no_secret(tmp_path: Path) -> None:
    make_secrets(tmp_path / "one")
    make_secrets(tmp_path / "two")
    one, two = snapshot(tmp_path / "one"), snapshot(tmp_path / "two")
    assert {name for name in one if one[name] == two[name]} == set()


def test_init_as_a_command_says_what_it_wrote_and_why_it_could_not(tmp_path: Path) -> None:
    def init(folder: Path) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(ROOT / "deploy/init.py"), str(folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "redis_worker" in init(tmp_path / "new").stdout
    assert "all secrets are there" in init(tmp_path / "new").stdout
    tmp_path.joinpath("file").touch()
    refused = init(tmp_path / "file")
    assert refused.returncode == 1
    assert str(tmp_path / "file") in refused.stderr
    assert "Traceback" not in refused.stderr


# -- Redis's accounts


def accounts() -> dict[str, set[str]]:
    """Give the commands of each account."""
    lines = redis_acl(USERS.read_text(), dict.fromkeys(DRAWN, "x")).splitlines()
    return {line.split()[1]: set(re.findall(r" \+([^\s)]+)", line)) for line in lines}


def called(*sources: Path) -> set[str]:
    """Give the commands that Lua or Python calls."""
    found = set()
    for source in sources:
        text = re.sub("--.*", "", source.read_text()) if source.suffix == ".lua" else source.read_text()
        # By name, by a table, by an argument; and what the library gives a method.
        found |= {word.lower() for word in re.findall(r"redis\.p?call\('([A-Z.]+)'", text)}
        found |= {word.lower() for word in re.findall(r"\{'([A-Z]+)', key", text)}
        found |= {word.lower() for word in re.findall(r"enqueue\('([A-Z]+)'", text)}
        found |= {word.lower() for word in re.findall(r"(?:command|_call)\((?:[\w.]+, )?\"([A-Z]+)\"", text)}
        methods = re.findall(r"(?:redis|client|server|clients\(\w+\))\.(\w+)\b", text)
        found |= {name.removesuffix("_iter") for name in methods if hasattr(CoreCommands, name)}
    return {ALIASES.get(word, word) for word in found} - {""}


def frontier() -> set[str]:
    folder = ROOT / "crawler/frontier"
    beside = ("shelf", "resume", "items_to_redis", "commands/resume_state")
    return called(*folder.glob("*.lua"), *folder.glob("*.py"), *(ROOT / f"crawler/{name}.py" for name in beside))


def test_the_accounts_are_these() -> None:
    assert set(accounts()) == {"default", "health", "worker", "exporter", "dropin"}
    assert accounts()["health"] == {"ping"}
    lines = redis_acl(USERS.read_text(), dict.fromkeys(DRAWN, "x")).splitlines()
    # Nobody's, but allowed everything: the server reads its append-only file as this user.
    assert lines[0] == "user default off resetpass ~* &* +@all"


def test_a_worker_may_call_what_the_frontier_calls_and_nothing_else() -> None:
    assert len(frontier()) > 40
    assert accounts()["worker"] - CONNECTION == frontier() | {"evalsha"}


def test_the_exporter_may_call_what_its_scripts_call() -> None:
    scripts = [ROOT / f"crawler/frontier/{name}.lua" for name in ("status", "oldest")]
    assert called(*scripts) - accounts()["exporter"] == set()


def test_the_drop_in_parts_may_call_what_they_call() -> None:
    parts = ("crawler/queue.py", "crawler/dupefilter.py", "crawler/frontier/_dedup.lua")
    assert called(*(ROOT / part for part in parts)) - accounts()["dropin"] == set()


@pytest.mark.parametrize("account", ["worker", "exporter", "dropin"])
def test_no_account_may_harm_the_others(account: str) -> None:
    harmful = {"flushall", "flushdb", "keys", "config", "config|set", "client", "client|kill", "client|pause", "acl"}
    harmful |= {"shutdown", "debug", "module", "module|load", "replicaof", "script", "script|flush", "script|kill"}
    harmful |= {"swapdb", "migrate", "monitor", "save", "@all", "@dangerous", "@admin", "@connection", "rename"}
    assert accounts()[account] & harmful == set()


# -- Compose


def test_every_setting_is_fixed_by_compose_or_passed_on_to_the_workers(compose: dict[str, Any]) -> None:
    given = {re.sub("PASSWORD_FILE$", "PASSWORD", name) for name in compose["worker"]["environment"]}
    # The exporter's own; what listens on all of a container's addresses anyway; and this deployment has no Sentinel.
    elsewhere = {"EXPORTER_PORT", "METRICS_HOST", "REDIS_SENTINEL_USERNAME", "REDIS_SENTINEL_PASSWORD"}
    archive = {name for name in Config.names() if name.startswith("ARCHIVE_")}
    assert archive < set(compose["archive"]["environment"])
    elsewhere |= archive
    assert given == {*Config.names(), *ScrapySettings.names()} - elsewhere


def test_no_secret_is_in_an_environment_or_an_argument(compose: dict[str, Any]) -> None:
    for name, service in compose.items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|KEYFILE", variable):
                assert str(value).startswith("/run/secrets/"), f"{name}: {variable}"


def test_every_container_is_confined(compose: dict[str, Any]) -> None:
    for name, service in compose.items():
        assert re.fullmatch(r"[1-9]\d*:\d+", service["user"]), name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {"memory", "pids"} <= set(service["deploy"]["resources"]["limits"]), name
        assert service["logging"]["options"]["max-size"], name
        for port in service.get("ports", []):
            assert ":-127.0.0.1:" in port, name


def test_what_a_container_keeps_belongs_to_its_user(compose: dict[str, Any]) -> None:
    """A new volume takes over the owner of the folder that it is mounted on, which the image has to have."""
    made = re.findall(
        r"install --directory --owner=(\d+) --group=(\d+) --mode=700 (.*)", (ROOT / "Dockerfile").read_text()
    )
    owners = {folder: f"{user}:{group}" for user, group, folders in made for folder in folders.split()}
    for name in ("worker", "archive"):
        for volume in compose[name]["volumes"]:
            assert owners[volume.split(":")[1]] == compose[name]["user"], volume


def test_workers_can_be_scaled(compose: dict[str, Any]) -> None:
    assert not {"container_name", "ports", "hostname"} & set(compose["worker"])


def test_every_variable_of_compose_is_explained() -> None:
    compose_text = ROOT.joinpath("compose.yaml").read_text()
    asked = set(re.findall(r"\$\{(\w+):-([^}]*)\}", compose_text))
    offered = set(re.findall(r"^#(\w+)=(\S*)", ROOT.joinpath(".env.example").read_text(), re.MULTILINE))
    assert {name for name, _ in asked} <= {name for name, _ in offered}
    assert {pair for pair in offered if pair[0] in dict(asked)} == asked
