"""The note in MongoDB of when a backup was made last, for the monitoring (`python -m crawler.storage.maintenance`)."""

import sys
from datetime import UTC, datetime

from crawler.config import Config
from crawler.errors import SeedbedError
from crawler.storage.itemtypes import MAINTENANCE
from crawler.storage.opened import opened

#: The `_id` of the note; `at` is when the backup was complete.
LAST_BACKUP = "last_backup"


def note_backup(config: Config, name: str, size_bytes: int) -> None:
    """Note that a backup is complete. Raises ConfigError or StorageError."""
    note = {"at": datetime.now(UTC), "name": name, "size_bytes": size_bytes}
    with opened(config) as database:
        database[MAINTENANCE].update_one({"_id": LAST_BACKUP}, {"$set": note}, upsert=True)


def main() -> str | None:
    """Note the backup that the arguments name; return what is wrong, or None."""
    match sys.argv[1:]:
        case [name, size_bytes] if size_bytes.isdigit():
            try:
                note_backup(Config.from_environ(), name, int(size_bytes))
            except SeedbedError as error:
                return f"seedbed: {error}"
            return None
    return "usage: python -m crawler.storage.maintenance NAME BYTES"


if __name__ == "__main__":
    sys.exit(main())
