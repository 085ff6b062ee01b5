"""Connections to Redis as the settings want them, and its errors in this project's words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from crawler.config import Config
from crawler.errors import FrontierDownError, FrontierError, FrontierFullError

#: A reply that takes longer is taken for lost, seconds.
TIMEOUT_S = 10.0

#: Codes of refusals that a later try may not meet: the server starts, fails over, can't write, or runs a long script.
_PASSING = frozenset({"READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY"})

#: Before Redis 7, the code of what a script met stands in the middle.
_find_code = re.compile(r"(?:^|: -)([A-Z]+) ").search

#: What a script is told that does what its account may not; it differs between versions.
_is_denied = re.compile(r"ACL failure in script|The user executing the script can't").search


def connect(config: Config) -> redis.asyncio.Redis:
    """Return an asynchronous client; it connects at its first command, and never repeats one by itself."""
    return redis.asyncio.Redis.from_url(config.redis_url, retry=AsyncRetry(NoBackoff(), 0), **_options(config))


def connect_sync(config: Config, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    """Return a blocking client, for threads and commands; otherwise as `connect`."""
    return redis.Redis.from_url(config.redis_url, retry=Retry(NoBackoff(), 0), **_options(config, timeout_s))


def _options(config: Config, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "health_check_interval": 0,
    }
    if config.redis_username:
        options["username"] = config.redis_username
    if config.redis_password:
        options["password"] = config.redis_password
    return options


def address(config: Config) -> str:
    """Return where Redis is looked for, without a password."""
    parts = urlsplit(config.redis_url)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn the client's errors into FrontierDownError, FrontierFullError or FrontierError, naming *where*."""
    try:
        yield
    except (AuthenticationError, AuthorizationError) as error:
        raise FrontierError(
            f"Redis at {where} refuses the account: {error}. Check REDIS_USERNAME and REDIS_PASSWORD"
        ) from error
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise FrontierDownError(
            f"Redis at {where} can't be reached: {error}. Check REDIS_URL, and that it runs"
        ) from error
    except ResponseError as error:
        raise refusal(error, where) from error
    except RedisError as error:
        raise FrontierError(f"Redis at {where}: {error}") from error


def refusal(error: ResponseError, where: str) -> FrontierError:
    """Return what an error reply of the server means here."""
    text = str(error)
    found = _find_code(text)
    code = found[1] if found else ""
    if isinstance(error, OutOfMemoryError) or code == "OOM":
        return FrontierFullError(f"Redis at {where} is at its memory limit (maxmemory): give it more, or let it drain")
    if isinstance(error, (ReadOnlyError, ClusterDownError, TryAgainError)) or code in _PASSING:
        return FrontierDownError(f"Redis at {where} is not ready: {text}")
    if isinstance(error, NoPermissionError) or _is_denied(text):
        return FrontierError(f"Redis at {where} refuses the account: {text}. Check REDIS_USERNAME and REDIS_PASSWORD")
    return FrontierError(f"Redis at {where} refused: {text}")
