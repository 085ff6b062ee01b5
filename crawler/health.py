"""Tell whether the worker in this container works: exit code 0 when its heartbeat is fresh, 1 with the reason when not.

It reads HEARTBEAT_FILE itself: all of the settings would take half a second of a processor at each check.
"""

import os
import sys
import time
from pathlib import Path

#: Beats come each second; a long parse may hold a few back.
FRESH_S = 15.0


def main() -> str | None:
    """Return what is wrong, or None."""
    name = os.environ.get("HEARTBEAT_FILE")
    if not name:
        return "HEARTBEAT_FILE is not set: there is no heartbeat to look at"
    try:
        age_s = time.time() - Path(name).stat().st_mtime
    except OSError as error:
        return f"{name}: no heartbeat ({error.strerror})"
    return None if age_s <= FRESH_S else f"{name}: the event loop has stood still for {age_s:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
