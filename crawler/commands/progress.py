"""How far a long command has come, on standard error: on a terminal a line that lives, elsewhere one now and then."""

import sys
import time
from typing import Self

#: Between two looks of a person, and between two lines of a log.
LIVE_S, LOGGED_S = 0.2, 30.0


class Progress:
    """Say how much is done; a context, so that the live line is wiped at the end.

    Where something else may go to the same terminal (not *is_alone*), no line lives there.
    """

    def __init__(self, *, is_alone: bool = True) -> None:
        #: How much there is to do, about; None: that is not known.
        self.total: int | None = None
        self._is_live = is_alone and sys.stderr.isatty()
        self._what = ""
        self._begin_s = self._next_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def tell(self, done: int, what: str) -> None:
        """Show it (`1,200 of 5,000 documents written, 300/s`), if it is time to."""
        now_s = time.monotonic()
        pause_s = LIVE_S if self._is_live else LOGGED_S
        if what != self._what:
            self._what, self._begin_s, self._next_s = what, now_s, now_s + pause_s
        if now_s < self._next_s:
            return
        self._next_s = now_s + pause_s
        of = f" of {self.total:,}" if self.total else ""
        per_s = done / (now_s - self._begin_s)
        line = f"{done:,}{of} {what}, {per_s:,.0f}/s"
        if self._is_live:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
