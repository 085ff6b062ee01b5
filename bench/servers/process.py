"""A server as a child process: its own port, data directory and log, and an end that is sure to come."""

from __future__ import annotations

import atexit
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self, TypedDict

from bench.servers.programs import ServerError

#: Ports to draw from. They lie below the ephemeral range: a client that retries a closed ephemeral port on
#: loopback may connect to itself, and would then hold the port against the server's restart. So do those, 10,000 above,
#: on which the nodes of a Redis Cluster talk to each other.
PORTS = range(20_000, 22_700)

#: How often a start is tried again with another port after somebody else has taken the first.
PORT_TRIES = 5

#: How much of the log an error quotes.
LOG_TAIL_LINES = 15

_POLL_S = 0.01

# Runs in the child before the server does: Linux then ends the server with its parent, however the parent
# ends. A program of its own, since Python code between fork and exec (`preexec_fn`) is unsafe beside threads.
_DIE_WITH_PARENT = """\
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""


class _PortTakenError(ServerError):
    pass


class ProcessOptions(TypedDict, total=False):
    """What every server takes; `EmbeddedServer` describes it."""

    data_dir: Path | None
    port: int
    start_timeout_s: float
    stop_timeout_s: float


class EmbeddedServer(ABC):
    """Run a server as a child process, bound to 127.0.0.1.

    As a context manager it starts on entry; on exit it stops and a temporary data directory is removed. It
    also stops when the interpreter exits and, on Linux, when the parent is killed or the thread that started
    the server ends.

    Args:
        data_dir: where the data, the written configuration and the log lie; kept afterwards. None for a
            temporary directory.
        port: the TCP port; 0 draws a free one. It stays the same across `restart`.
        start_timeout_s: how long a start may take until the server is ready.
        stop_timeout_s: how long a stop may take until the server is killed.
    """

    #: What errors and the log file call the server.
    name: ClassVar[str]

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int = 0,
        start_timeout_s: float = 60,
        stop_timeout_s: float = 20,
    ) -> None:
        self.port = port
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=f"seedbed-{self.name}-")
            data_dir = Path(self._temporary.name)
        self.data_dir = data_dir.resolve()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log_path = self.data_dir / f"{self.name}.log"
        self._log_offset = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Give the address for clients."""

    @property
    @abstractmethod
    def ready_line(self) -> str:
        """Give what the server logs once it listens on its port and has loaded its data."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Write the configuration for `self.port`; give the command line, the program as an absolute path."""

    def _started(self) -> None:  # noqa: B027 - a hook, empty unless a server has more to do
        """Complete a start once the server is ready."""

    @property
    def running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Give the server's process id; raises ServerError when it is not running."""
        if self._process is None or not self.running:
            raise ServerError(f"{self.name} is not running; its log is {self.log_path}")
        return self._process.pid

    def start(self) -> Self:
        """Start the server and return once it serves.

        Raises:
            ServerError: it ended or was not ready in time; the message holds the end of its log.
        """
        if self.running:
            raise ServerError(f"{self.name} is running already (process {self.pid})")
        if self.port:
            self._launch()
            return self
        for tries_left in reversed(range(PORT_TRIES)):
            self.port = free_port()
            try:
                self._launch()
                break
            except _PortTakenError:
                self.port = 0
                if not tries_left:
                    raise
        return self

    def stop(self) -> None:
        """Stop the server cleanly, or kill it when it does not end in time; its data stay."""
        self._end(self._stop_timeout_s)

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        self._end(0)

    def restart(self) -> None:
        """Start the server again, on the same port and the same data, after stopping it if it still runs."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its temporary directory; it can't be started again."""
        self.stop()
        if self._temporary:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _complaints(self) -> str:
        """Give the lines of the log that an error should quote."""
        return "\n".join(self._log().splitlines()[-LOG_TAIL_LINES:])

    def _log(self) -> str:
        """Give what the server logged since its latest start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace")

    def _launch(self) -> None:
        command = self._command()
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
        with self.log_path.open("ab") as log:
            self._log_offset = log.tell()
            self._process = subprocess.Popen(
                command,
                cwd=self.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which stops its servers
            )
        atexit.register(self.close)
        try:
            # The log is this child's alone; a port that answers may be another's, taken since it was drawn.
            self._await(lambda: self.ready_line in self._log())
            self._started()
        except BaseException:
            self.kill()
            raise

    def _await(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not ready():
            if not self.running:
                if "address already in use" in self._log().lower():
                    address = f"127.0.0.1:{self.port}"
                    raise _PortTakenError(f"{self.name} can't listen on {address}: the port is in use")
                raise ServerError(f"{self.name} ended at its start. Its log says:\n{self._complaints()}")
            if time.monotonic() > deadline:
                waited = f"{self._start_timeout_s:g} s"
                raise ServerError(f"{self.name} is not ready after {waited}. Its log says:\n{self._complaints()}")
            time.sleep(_POLL_S)

    def _end(self, timeout_s: float) -> None:
        atexit.unregister(self.close)
        if self._process is None:
            return
        if timeout_s:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                timeout_s = 0
        if not timeout_s:
            self._process.kill()
            self._process.wait()
        self._process = None


def free_port() -> int:
    """Draw a TCP port that nobody listens on at 127.0.0.1; it may be taken until it is used."""
    draw = random.SystemRandom()
    while True:
        port = draw.choice(PORTS)
        with socket.socket() as probe:
            # As servers bind: connections in TIME_WAIT are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
