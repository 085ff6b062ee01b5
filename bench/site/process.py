"""A site in a process of its own, so that its work is not counted as its client's."""

import json
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import ProxyHandler, build_opener

from bench.site.config import SiteConfig

_ROOT = Path(__file__).parents[2]
_STOP_TIMEOUT_S = 10
_ASK_TIMEOUT_S = 60

# What the environment says of proxies must not keep anybody from asking the site itself.
_direct = build_opener(ProxyHandler({}))


class SiteProcess:
    """Serve a site from `python -m bench.site` as long as the `with` block runs.

    `config` is the site's configuration, in it, once started, the port that was chosen; `pid` is the process. Raises
    RuntimeError with the process's own words when it does not start. Takes some 0.2 s.
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            errors = stack.enter_context(tempfile.TemporaryFile())
            command = [sys.executable, "-m", "bench.site", *self.config.arguments()]
            process = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_ROOT)
            )
            stack.callback(_stop, process)
            assert process.stdout is not None  # noqa: S101  # it is a pipe: for the type checker
            ready = re.search(r"\(port (\d+),", process.stdout.readline())
            if not ready:
                process.wait()
                errors.seek(0)
                raise RuntimeError(f"the sample site did not start: {errors.read().decode().strip()}")
            self.config = replace(self.config, port=int(ready[1]))
            self.pid = process.pid
            self._exit = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def stats(self) -> dict[str, Any]:
        """Give what the site has counted since its start or the last `reset`: see `Traffic.stats`."""
        stats: dict[str, Any] = json.loads(self._ask("/_stats"))
        return stats

    def log(self) -> list[dict[str, Any]]:
        """Give the newest `config.log_size` requests, oldest first, with the fields of `LoggedRequest`."""
        return [json.loads(line) for line in self._ask("/_log").splitlines()]

    def reset(self) -> None:
        """Make the site forget what it was asked: pages fail once again, counts and log are empty."""
        self._ask("/_reset")

    def _ask(self, endpoint: str) -> str:
        address = self.config.listen_addresses[0].replace("0.0.0.0", "127.0.0.1")
        with _direct.open(f"http://{address}:{self.config.port}{endpoint}", timeout=_ASK_TIMEOUT_S) as answer:
            text: str = answer.read().decode()
        return text


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
