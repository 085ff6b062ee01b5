"""Make the secrets of the deployment: run by `make init`; needs nothing but Python's own library.

What is there is kept: running it again makes what is missing, and writes anew what is derived from the rest (the
accounts of Redis, say, when an upgrade changes them). The folder can be entered by its owner alone; in it the files can
be read by everybody, as Compose gives a container the file itself, under whatever user the container runs.
"""

import argparse
import base64
import json
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

USERS = Path(__file__).with_name("users.acl")


def password() -> str:
    """Return a new password of 256 bits."""
    return secrets.token_hex(32)


def key() -> str:
    """Return a new key file for MongoDB."""
    return base64.b64encode(secrets.token_bytes(256)).decode()


#: The secrets that are drawn, and how.
DRAWN: Mapping[str, Callable[[], str]] = {
    "redis_worker": password,
    "redis_exporter": password,
    "redis_dropin": password,
    "mongo_worker": password,
    "mongo_exporter": password,
    "mongo_archivist": password,
    "mongo_backup": password,
    "mongo_keyfile": key,
    "grafana_admin": password,
}


def redis_acl(template: str, drawn: Mapping[str, str]) -> str:
    """Return Redis's ACL file: a user a line, with the digest of a password in place of its name.

    Raises KeyError for a secret that is not drawn.
    """
    lines = [line for line in template.splitlines() if line.strip() and not line.startswith("# ")]
    joined = re.sub(r"\n\s+", " ", "\n".join(lines))
    return re.sub(r"#\{(\w+)\}", lambda name: "#" + sha256(drawn[name[1]].encode()).hexdigest(), joined) + "\n"


def derived(drawn: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that follow from *drawn*."""
    return {
        "redis_acl": redis_acl(USERS.read_text(encoding="utf-8"), drawn),
        "redis_exporter_json": json.dumps({"redis://exporter@redis:6379": drawn["redis_exporter"]}),
    }


def make_secrets(folder: Path) -> list[str]:
    """Make what is missing in *folder* and return the names of the files that were written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    written = [name for name, draw in DRAWN.items() if not _read(folder / name) and _write(folder / name, draw())]
    follow = derived({name: _read(folder / name) for name in DRAWN})
    return written + [
        name for name, text in follow.items() if _read(folder / name) != text and _write(folder / name, text)
    ]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _write(path: Path, text: str) -> bool:
    # In place: a running container holds on to the file itself.
    if path.exists():
        path.chmod(0o600)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o444)
    return True


def main() -> str | None:
    """Make the secrets and say which; return what is wrong, or None."""
    parser = argparse.ArgumentParser(description="Make the secrets of the deployment; keep those that are there.")
    parser.add_argument("folder", type=Path, nargs="?", default=USERS.parents[1] / "secrets")
    folder: Path = parser.parse_args().folder
    try:
        written = make_secrets(folder)
    except OSError as error:
        return f"init: {error}"
    print(f"init: {folder}: wrote {', '.join(written)}" if written else f"init: {folder}: all secrets are there")
    return None


if __name__ == "__main__":
    sys.exit(main())
