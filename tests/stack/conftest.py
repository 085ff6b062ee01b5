"""The deployment as users run it, in containers: compose.yaml and the Makefile's targets, with secrets of its own.

In CI an engine must be there; elsewhere these tests are skipped without one. Where the stand-ins for the images were
built (tests/stack/images), they are used, and the project's image is built from wheels.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.stack.stack import SITE, Stack

STAND_IN = "seedbed-stand-in/grafana"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Give a deployment with two workers and the sample site, just started from nothing by `make up`."""
    for probe in (["docker", "info"], ["docker", "compose", "version"]):
        if not shutil.which("docker") or subprocess.run(probe, capture_output=True, check=False).returncode:
            if os.environ.get("CI"):
                pytest.fail(f"`{' '.join(probe)}` fails: a container engine with Compose must be there in CI")
            pytest.skip("no container engine with Compose answers")
    deployment = Stack(
        {
            "COMPOSE_PROJECT_NAME": f"seedbed-test-{os.getpid()}",
            "COMPOSE_PROFILES": "demo",
            "COMPOSE_DISABLE_ENV_FILE": "1",  # the user's own
            "SECRETS_DIR": str(tmp_path_factory.mktemp("deployment") / "secrets"),
            "SEEDBED_IMAGE": "seedbed:test",
            "GRAFANA_LISTEN": f"127.0.0.1:{_free_port()}",
            "PROMETHEUS_LISTEN": f"127.0.0.1:{_free_port()}",
            "ALERTMANAGER_LISTEN": f"127.0.0.1:{_free_port()}",
            "SITE_PRODUCTS": str(SITE.products),
            # Killed workers are missed soon.
            "FRONTIER_LEASE_S": "5",
        }
        | _stand_ins()
    )
    if "COMPOSE_FILE" in deployment.environment:
        deployment.make("wheels")
    try:
        started = deployment.run("make", "up", "WORKERS=2", check=False)
        if started.returncode:
            pytest.fail(f"{started.stderr[-2000:]}\n{deployment.compose('logs', '--tail', '20')}")
        yield deployment
    finally:
        deployment.compose("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "5")


def _stand_ins() -> dict[str, str]:
    if subprocess.run(["docker", "image", "inspect", STAND_IN], capture_output=True, check=False).returncode:
        return {}
    return {"COMPOSE_FILE": os.pathsep.join(("compose.yaml", "tests/stack/compose.override.yaml"))}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
