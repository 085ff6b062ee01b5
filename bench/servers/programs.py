"""Where the servers' programs lie: in an installed wheel or on PATH."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path


class ServerError(RuntimeError):
    """A server could not be started, ended unasked, or is not running."""


class ServerMissingError(ServerError):
    """This machine has no program for the server."""


def on_path(name: str) -> Path | None:
    """Find a program on PATH."""
    found = shutil.which(name)
    return Path(found) if found else None


def in_wheel(package: str, relative: str) -> Path | None:
    """Find a program or library in an installed wheel, without importing it, and see to its execute bit.

    Raises:
        ServerError: the bit is missing and this user may not set it.
    """
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location, relative)
        if path.is_file():
            if not os.access(path, os.X_OK):  # some installers drop it
                try:
                    path.chmod(path.stat().st_mode | 0o111)
                except PermissionError as error:
                    raise ServerError(f"{path} is not executable: run `chmod +x` on it as its owner") from error
            return path
    return None


def version_of(path: Path, pattern: str) -> re.Match[str] | None:
    """Find `pattern` in what a program's `--version` prints; None where it does not run or is another."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return re.search(pattern, answer.stdout)
