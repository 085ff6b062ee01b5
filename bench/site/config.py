"""What one sample site is: every number and name from which all of its pages follow."""

import sys
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self

#: Links that a page needs for its navigation, at most; the rest are listings and cross links.
NAVIGATION_LINKS = 8

#: Ways in which a link may spell an address without naming another page.
SPELLINGS = ("query", "fragment", "encoding", "host", "port")

# Linux answers on the whole of 127.0.0.0/8 without any set-up; elsewhere only these two names are sure.
_LOCAL_HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3") if sys.platform == "linux" else ("127.0.0.1", "localhost")


def _setting(default: Any, text: str) -> Any:
    """Declare a field with the text that `--help` shows for it."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class SiteConfig:
    """Describe a sample site.

    Equal configurations give byte-identical pages, in every process and on every machine. Each field is also a
    flag of `python -m bench.site`. Raises ValueError that names the field whose value makes no sense.
    """

    products: int = _setting(1000, "number of products, 1 to 100 million")
    categories: int = _setting(20, "number of categories")
    seed: int = _setting(1, "another seed gives other texts, prices and cross links")
    links_per_page: int = _setting(24, "links on every page, exactly; 20 or more")
    page_bytes: int = _setting(0, "pad pages to this size in bytes (0: as small as they come, 3 to 4 KB)")

    host_names: tuple[str, ...] = _setting(_LOCAL_HOSTS, "the site's host names as clients resolve them, by commas")
    bind: tuple[str, ...] = _setting(
        (), "addresses to listen on, by commas (default: the host names in 127.0.0.0/8, else 127.0.0.1)"
    )
    port: int = _setting(8000, "port to listen on (0: any free one)")
    public_port: int = _setting(0, "port as clients see it, if it is another one (0: the same)")

    spellings: tuple[str, ...] = _setting(
        SPELLINGS,
        "ways to spell a link other than canonically: query (order, spaces), fragment, encoding, host (case), port",
    )
    spelling_share: float = _setting(0.25, "share of links that are spelled in one of these ways")
    moved_share: float = _setting(0.02, "share of products that are linked through a 301 or 302")
    missing_share: float = _setting(0.02, "addresses that answer 404, per product")
    private_share: float = _setting(0.02, "pages that robots.txt disallows, per product")
    failing_share: float = _setting(0.01, "share of pages that answer 500 the first time they are asked for")
    slow_share: float = _setting(0.01, "share of pages that are answered late")
    slow_s: float = _setting(0.3, "how late, in seconds")

    crawl_delay_s: float = _setting(0.0, "Crawl-delay in robots.txt (0: none)")
    throttled_host: str = _setting("", "host name that refuses its first requests")
    throttled_requests: int = _setting(3, "how many requests it refuses (robots.txt is never refused)")
    throttle_status: int = _setting(429, "status of the refusals: 429 or 503")
    retry_after_s: int = _setting(1, "Retry-After of the refusals")
    etags: bool = _setting(False, "send ETag and Last-Modified, and answer 304 to conditional requests")
    log_size: int = _setting(0, "keep the newest so many requests for /_log (0: none)")

    def __post_init__(self) -> None:
        lowered = tuple(name.lower() for name in self.host_names)
        object.__setattr__(self, "host_names", lowered)
        object.__setattr__(self, "throttled_host", self.throttled_host.lower())
        self._require("products", 1 <= self.products <= 100_000_000, "must be 1 to 100,000,000")
        self._require("categories", 1 <= self.categories <= 10_000_000, "must be 1 to 10,000,000")
        self._require("seed", self.seed >= 0, "must be 0 or more")
        self._require("links_per_page", 20 <= self.links_per_page <= 10_000, "must be 20 to 10,000")
        self._require("page_bytes", 0 <= self.page_bytes <= 1 << 26, "must be 0 to 64 MiB")
        self._require("host_names", all(lowered) and len(set(lowered)) == len(lowered) > 0, "must be different names")
        self._require("port", 0 <= self.port <= 65535, "must be 0 to 65535")
        self._require("public_port", 0 <= self.public_port <= 65535, "must be 0 to 65535")
        self._require("spellings", set(self.spellings) <= set(SPELLINGS), f"must be some of {', '.join(SPELLINGS)}")
        for name in ("spelling", "moved", "missing", "private", "failing", "slow"):
            share = f"{name}_share"
            self._require(share, 0 <= getattr(self, share) <= 1, "must be 0 to 1")
        for name in ("slow_s", "crawl_delay_s", "throttled_requests", "retry_after_s", "log_size"):
            self._require(name, getattr(self, name) >= 0, "must be 0 or more")
        self._require("throttled_host", self.throttled_host in ("", *lowered), "must be one of host_names")
        self._require("throttle_status", self.throttle_status in (429, 503), "must be 429 or 503")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(f"{name}={getattr(self, name)!r}: {rule}")

    @property
    def origins(self) -> tuple[str, ...]:
        """Give `http://host[:port]` of each host as its canonical addresses spell it.

        Raises ValueError while the port is 0, that is, before the site has been started.
        """
        port = self.public_port or self.port
        if not port:
            raise ValueError("port=0: not chosen yet; take the configuration of the started site, or set public_port")
        suffix = "" if port == 80 else f":{port}"
        return tuple(f"http://{name}{suffix}" for name in self.host_names)

    @property
    def start_url(self) -> str:
        """Give the address from which every page of the site can be reached."""
        return f"{self.origins[0]}/"

    @property
    def listen_addresses(self) -> tuple[str, ...]:
        """Give the addresses to listen on: never more than the loopback ones unless told by `bind`."""
        loopback = tuple(name for name in self.host_names if name.startswith("127."))
        return self.bind or loopback or ("127.0.0.1",)

    def arguments(self) -> list[str]:
        """Give the flags of `python -m bench.site` that describe this site; defaults are left out."""
        flags = []
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value == setting.default:
                continue
            flags.append(flag_of(setting))
            if not isinstance(value, bool):
                flags.append(",".join(value) if isinstance(value, tuple) else str(value))
        return flags

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Make a configuration from a mapping that may hold other keys, too."""
        return cls(**{setting.name: values[setting.name] for setting in fields(cls) if setting.name in values})


def flag_of(setting: "Field[Any]") -> str:
    """Give the command-line flag of a field."""
    return "--" + setting.name.replace("_", "-")
