"""Every error that this project raises on purpose.

SeedbedError
├── ConfigError          a setting is wrong: names the variable and says what it takes
├── UnknownSpiderError   a command is for a spider that there is not: names those that there are
├── SeedError            one request or one queued seed is at fault; the others are not
│   ├── NotDataError     a request holds something that is no data (a lambda, a lock, ...)
│   └── BadSeedError     a queued entry can't be read back as a request
├── FrontierError        Redis refused, or holds something that this project did not put there
│   ├── FrontierDownError  Redis can't be reached; the caller may try again
│   ├── FrontierFullError  Redis is at its memory limit; the caller may try again when there is room
│   └── LeaseLostError   the server no longer knows this worker's session; reopen it
└── StorageError         MongoDB can't be reached or refuses; says which address and why
    ├── SpoolError       the spool's file can't be written or read; says which one and why
    │   └── SpoolDamagedError  it holds something else than what was written
    ├── ArchiveError     a file of the archive can't be written or read, or holds something else than it should
    ├── BadPageError     one stored page can't be read back
    └── NotStorableError one page or item can't be a document of MongoDB; the others are not at fault
"""


class SeedbedError(Exception):
    """Stand at the root of this project's errors."""


class ConfigError(SeedbedError):
    """Say which setting is wrong and what it takes."""


class UnknownSpiderError(SeedbedError):
    """Name the spider that there is not, and those that there are."""


class SeedError(SeedbedError):
    """Name the one request or seed at fault."""


class NotDataError(SeedError):
    """Name the request and the field whose value can't be stored as data."""


class BadSeedError(SeedError):
    """Say why a queued entry can't be read back as a request."""


class FrontierError(SeedbedError):
    """Say what Redis refused, and the key."""


class FrontierDownError(FrontierError):
    """Redis can't be reached at this address; a later try may succeed."""


class FrontierFullError(FrontierError):
    """Redis is at `maxmemory` and evicts nothing; a later try may succeed."""


class LeaseLostError(FrontierError):
    """The server does not know this session: it expired, or Redis lost its last moments."""


class StorageError(SeedbedError):
    """Say what MongoDB refused, and at which address."""


class SpoolError(StorageError):
    """Name the file of a spool that can't be written or read, and say why; a later try may succeed."""


class SpoolDamagedError(SpoolError):
    """Name the file of a spool that does not hold what was written; no later try will succeed."""


class ArchiveError(StorageError):
    """Name the file or page of the archive at fault, and say what is wrong with it."""


class BadPageError(StorageError):
    """Say why a document of `raw_pages` can't be read back as a response."""


class NotStorableError(StorageError):
    """Say what can't be stored of one page or item, and where in it that stands."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(what, path)
        self.what = what
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what

    def within(self, step: str | int) -> "NotStorableError":
        """Return the same error as seen from outside: what is at fault stands in *step*."""
        return NotStorableError(self.what, f"[{step!r:.100}]{self.path}")
