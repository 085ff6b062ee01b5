"""A worker as the deployment runs it: `scrapy crawl SPIDER` in a process of its own."""

import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

_STOP_TIMEOUT_S = 60


class WorkerProcess:
    """Run one worker; its output goes to *log*."""

    def __init__(self, name: str, spider: str, arguments: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", "crawl", spider, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=dict(environ),
                cwd=ROOT,
                # Ctrl-C goes to the demo, which asks the workers to stop.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Give the process's number."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Give the exit code; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask the worker to stop cleanly, and wait until it has."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def kill(self) -> None:
        """End the process as a power failure would."""
        self._process.kill()
        self._process.wait()

    def stat(self, name: str) -> int:
        """Return a number of the statistics that the worker logs at its end; 0 if it is not there."""
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log.read_text(errors="replace"))
        return int(found[1]) if found else 0

    def complaints(self, lines: int = 15) -> str:
        """Return the last lines of the log, for whoever must know why it failed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
