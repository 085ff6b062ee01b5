"""All settings, read once into one frozen, validated object.

A value comes from Scrapy's settings where one is set there (`-s NAME=…`, `custom_settings`, a project's settings
module), else from the environment variable NAME, else from the file that NAME_FILE names, else from the default.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from scrapy.settings import BaseSettings

from crawler.errors import ConfigError

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Ratio = Annotated[float, Meta(gt=0, lt=1)]

REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
MONGO_SCHEMES = ("mongodb", "mongodb+srv")


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True, rename="upper"):
    """Read settings whose names, in capitals, are variables."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the settings from *environ* (default: the process's) and the files that it names.

        Raises ConfigError, which names the variable at fault.
        """
        return cls._build({}, os.environ if environ is None else environ)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read the settings from Scrapy's, then from the environment.

        Raises ConfigError, which names the setting at fault.
        """
        given = {name: settings.get(name) for name in cls.names() if settings.get(name) is not None}
        return cls._build(given, os.environ)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings, as the environment has them."""
        return cls.__struct_encode_fields__

    @classmethod
    def _build(cls, given: Mapping[str, Any], environ: Mapping[str, str]) -> Self:
        values: dict[str, Any] = {}
        for name in cls.names():
            if name in given:
                values[name] = given[name]
            elif environ.get(name):
                values[name] = environ[name]
            elif path := environ.get(f"{name}_FILE"):
                values[name] = _read(f"{name}_FILE", path)
        try:
            return msgspec.convert(values, cls, strict=False)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, ConfigError):
                raise error.__cause__ from None
            what, _, path = str(error).partition(" - at `$.")
            name = path.rstrip("`")
            choices = get_args(get_type_hints(cls).get(name.lower()))
            if "enum" in what and choices:
                what = f"one of {', '.join(choices)} is wanted"
            raise ConfigError(f"{name}={_shown(name, values.get(name))}: {what}") from None


class DedupSettings(EnvironmentSettings, frozen=True, kw_only=True, rename="upper"):
    """Hold what decides whether a link has been seen."""

    dedup: Literal["bloom", "exact", "off"] = "bloom"
    dedup_capacity: Count = 10_000_000
    dedup_error_rate: Ratio = 0.001
    #: What was seen is forgotten after this time, and a quarter of it at most; 0: never.
    dedup_ttl_s: Annotated[float, Meta(ge=0)] = 0.0


class Config(DedupSettings, frozen=True, kw_only=True, rename="upper"):
    """Hold every setting of the worker, the exporter and the commands; docs/settings.md explains each."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    redis_username: str = ""
    redis_password: str = ""
    redis_sentinel_username: str = ""
    redis_sentinel_password: str = ""
    mongo_uri: str = "mongodb://127.0.0.1:27017"
    mongo_username: str = ""
    mongo_password: str = ""
    mongo_database: Annotated[str, Meta(pattern=r'^[^/\\. "$*<>:|?\x00]{1,63}$')] = "crawl"

    #: Before the spider's name in every key, for projects that share a Redis and name a spider alike.
    frontier_namespace: Annotated[str, Meta(pattern=r"^[\w.-]*$")] = ""
    #: A worker that has not been heard of for this long is dead, and its leases go back.
    frontier_lease_s: Annotated[float, Meta(ge=1)] = 30.0
    #: Seeds that a worker takes ahead of its downloads; 0: four times CONCURRENT_REQUESTS.
    frontier_prefetch: Size = 0
    #: How long links and acknowledgements may wait for company before they go to Redis.
    frontier_flush_s: Positive = 0.1
    #: Links and acknowledgements that go to Redis in one call at most.
    frontier_batch: Count = 512
    #: Links and acknowledgements that wait in the worker before it stops taking seeds.
    frontier_outbox: Count = 20_000
    #: How often an idle worker asks for work, at the most and at the least.
    frontier_poll_s: Positive = 0.9
    #: Keys into which producers write start URLs, the most urgent first, by commas; {spider} is the spider's name.
    start_urls_key: str = "{spider}:start_urls"
    #: Whether a start URL that was seen already is fetched all the same, as scrapy-redis does.
    start_urls_dont_filter: bool = True
    #: Deaths of a worker with this seed alone in hand before the seed is set aside.
    frontier_max_deaths: Count = 3
    #: Pages that a crawl fetches at most, in all and of one host; 0: any number.
    frontier_max_pages: Size = 0
    frontier_max_pages_per_host: Size = 0
    #: Seeds that may be queued or in hand, 0: any number; and what is done about more.
    frontier_max_seeds: Size = 0
    frontier_full: Literal["slow", "drop-lowest"] = "slow"
    #: Whether a worker ends when the whole crawl is complete, or waits for new seeds.
    close_when_complete: bool = True

    #: Whether what was seen is remembered after the crawl is complete.
    dedup_keep: bool = False

    #: Hosts that may have addresses that are not public, by commas; "*": any host may; "none": none may.
    crawl_private_hosts: str = "*"

    #: How long what a host's robots.txt says holds for all workers.
    robotstxt_lifetime_s: Positive = 86_400.0
    #: How long the state of a site's lists is kept after it was noted last.
    resume_lifetime_s: Positive = 7 * 86_400.0

    #: Whether items go to a list in Redis, too, and to which; %(spider)s is the spider's name.
    items_to_redis: bool = False
    redis_items_key: str = "%(spider)s:items"
    #: Items that may wait in such a list, about; 0: any number.
    items_list_max: Size = 0

    #: Whether a page that is stored is asked for only if it has changed.
    crawl_conditional: bool = False

    #: Whether pages and items go to MongoDB.
    storage: bool = True
    store_batch_docs: Count = 500
    store_batch_bytes: Count = 4 << 20
    store_flush_s: Positive = 3.0
    store_buffer_bytes: Count = 64 << 20
    #: Where documents wait for a MongoDB that is away: a folder on this machine's disk; empty: in memory alone.
    store_spool_dir: str = ""
    #: What a worker keeps there at most; 0: nothing.
    store_spool_bytes: Size = 1 << 30
    #: How long MongoDB's primary is looked for before it is taken for away.
    store_connect_s: Positive = 10.0
    #: How long MongoDB may take to answer before the line is taken for dead.
    store_timeout_s: Positive = 30.0
    #: How long a worker that stops waits for its last documents to be stored.
    store_close_s: Positive = 20.0

    #: Where old pages go: a folder, or an address that fsspec knows.
    archive_url: str = ""
    #: How old they are then.
    archive_after_days: Positive = 30.0
    #: How large a file of the archive becomes, about.
    archive_file_bytes: Count = 1 << 30
    #: Whether each log line is a JSON object.
    log_json: bool = False

    metrics_host: str = "0.0.0.0"
    #: Where the worker serves /metrics: a port, the first free one of a range (9400-9409), any free one (0), or "off".
    metrics_port: int | str = "off"
    exporter_port: Port = 9410
    #: Touched by a worker whose event loop runs; its container's health check reads its age.
    heartbeat_file: str = ""
    #: A worker with a heartbeat file whose event loop stands still for this long ends itself.
    watchdog_s: Annotated[float, Meta(ge=2)] = 60.0

    def __post_init__(self) -> None:
        """Refuse what the types alone let through."""
        for name, url, schemes in (
            ("REDIS_URL", self.redis_url, REDIS_SCHEMES),
            ("MONGO_URI", self.mongo_uri, MONGO_SCHEMES),
        ):
            scheme = urlsplit(url).scheme
            if scheme not in schemes:
                wanted = " or ".join(f"{scheme}://" for scheme in schemes)
                raise ConfigError(f"{name}={_shown(name, url)}: an address that begins with {wanted} is wanted")
        if self.metrics_port != "off" and (not self.metrics_ports or self.metrics_ports[-1] > 65535):
            raise ConfigError(f"METRICS_PORT={self.metrics_port}: a port, a range like 9400-9409, 0 or off is wanted")

        try:
            self.items_key("spider")
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"REDIS_ITEMS_KEY={self.redis_items_key}: a key is wanted, where %(spider)s is the spider's name"
            ) from None

    def items_key(self, spider: str) -> str:
        """Return the key of the list that a spider's items go to."""
        return self.redis_items_key % {"spider": spider}

    def start_keys(self, spider: str) -> list[str]:
        """Return the keys into which producers write a spider's start URLs, the most urgent first."""
        return [key.strip().replace("{spider}", spider) for key in self.start_urls_key.split(",")]

    @property
    def metrics_ports(self) -> range:
        """Return the ports to try for the worker's /metrics; empty when it is off."""
        ports = re.fullmatch(r"(\d+)(?:-(\d+))?", str(self.metrics_port))
        return range(int(ports[1]), int(ports[2] or ports[1]) + 1) if ports else range(0)


class ScrapySettings(EnvironmentSettings, frozen=True, kw_only=True, rename="upper"):
    """Hold those of Scrapy's own settings that this project's workers take from the environment."""

    concurrent_requests: Count = 16
    concurrent_requests_per_domain: Count = 8
    #: Between two requests to one host, by all workers together.
    download_delay: NotNegative = 0.0
    depth_limit: Size = 0
    robotstxt_obey: bool = True
    user_agent: str = "seedbed (+https://scrapy.org)"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"


def _read(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{variable}={path}: the file can't be read ({error})") from None


def _shown(name: str, value: object) -> str:
    """Show a wrong value, but never a password."""
    if "PASSWORD" in name:
        return "(hidden)"
    text = str(value)
    parts = urlsplit(text)
    return text.replace(parts.netloc, "***@" + parts.netloc.rpartition("@")[2]) if "@" in parts.netloc else text
