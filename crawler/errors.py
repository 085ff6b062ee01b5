"""Every error that this project raises on purpose.

SeedbedError
├── ConfigError          a setting is wrong: names the variable and says what it takes
├── SeedError            one request or one queued seed is at fault; the others are not
│   ├── NotDataError     a request holds something that is no data (a lambda, a lock, ...)
│   └── BadSeedError     a queued entry can't be read back as a request
├── FrontierError        Redis refused, or holds something that this project did not put there
│   ├── FrontierDownError  Redis can't be reached; the caller may try again
│   ├── FrontierFullError  Redis is at its memory limit; the caller may try again when there is room
│   └── LeaseLostError   the server no longer knows this worker's session; reopen it
└── StorageError         MongoDB can't be reached or refuses; says which address and why
"""


class SeedbedError(Exception):
    """Stand at the root of this project's errors."""


class ConfigError(SeedbedError):
    """Say which setting is wrong and what it takes."""


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
