"""What was asked of a site: counts, concurrency, and a bounded log of requests."""

import time
from collections import Counter, deque
from typing import Any, NamedTuple


class LoggedRequest(NamedTuple):
    """One request; `monotonic_s` is the machine's monotonic clock, the same in all of its processes on Linux."""

    monotonic_s: float
    host: str
    target: str
    status: int


class Traffic:
    """Count the requests of one site, and keep the newest `log_size` of them."""

    def __init__(self, log_size: int) -> None:
        self._log: deque[LoggedRequest] = deque(maxlen=log_size)
        self._logs = log_size > 0
        self._served: Counter[tuple[str, str, int]] = Counter()
        self._open: Counter[str] = Counter()
        self._most_open: dict[str, int] = {}
        self._open_total = 0
        self._most_open_total = 0

    def begin(self, host: str, kind: str, status: int, target: str) -> None:
        """Note a request when it arrives; its answer may take a while."""
        self._served[host, kind, status] += 1
        if self._logs:
            self._log.append(LoggedRequest(time.monotonic(), host, target, status))
        self._open[host] += 1
        self._open_total += 1
        if self._open[host] > self._most_open.get(host, 0):
            self._most_open[host] = self._open[host]
        self._most_open_total = max(self._most_open_total, self._open_total)

    def end(self, host: str) -> None:
        """Note that a request was answered, or that its client has gone."""
        self._open[host] -= 1
        self._open_total -= 1

    def reset(self) -> None:
        """Forget everything but the requests that are still open."""
        self._log.clear()
        self._served.clear()
        self._most_open = {host: count for host, count in self._open.items() if count}
        self._most_open_total = self._open_total

    def stats(self) -> dict[str, Any]:
        """Give the counts since the start or the last reset."""
        hosts, kinds, statuses = Counter[str](), Counter[str](), Counter[str]()
        for (host, kind, status), count in self._served.items():
            hosts[host] += count
            kinds[kind] += count
            statuses[str(status)] += count
        return {
            "requests": self._served.total(),
            "by_host": dict(hosts),
            "by_kind": dict(kinds),
            "by_status": dict(statuses),
            "max_concurrent": self._most_open_total,
            "max_concurrent_by_host": dict(self._most_open),
        }

    def log(self) -> list[LoggedRequest]:
        """Give the newest requests, oldest first."""
        return list(self._log)
