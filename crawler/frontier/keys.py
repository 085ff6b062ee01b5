"""The names of all keys in Redis: the only place that spells them (docs/keyspace.md explains each)."""

from dataclasses import dataclass

#: Set of the tags of all spiders that have a frontier here. It has no hash tag: no script touches it.
SPIDERS = "seedbed:spiders"
#: Hash: file of a spool that is not empty -> what waits in it. No script touches it, either.
SPOOLS = "seedbed:spools"


def shared_value(namespace: str, kind: str, name: str) -> str:
    """String: a value that the workers of a namespace share for its lifetime; all are on one node of a cluster."""
    return f"{{seedbed:cache}}:{namespace}:{kind}:{name}"


@dataclass(frozen=True, slots=True)
class Keys:
    """Name the keys of one spider; all carry its hash tag, so that they live on one node of a cluster."""

    tag: str

    @classmethod
    def of(cls, spider: str, namespace: str = "") -> "Keys":
        """Return the keys of the spider named *spider* in *namespace*."""
        return cls(f"{namespace}/{spider}" if namespace else spider)

    def __call__(self, part: str) -> str:
        """Return the key of this spider that is named *part*."""
        return f"{{{self.tag}}}:{part}"

    @property
    def base(self) -> str:
        """The prefix of the keys that only a script can name: one list a priority, and one a waiting host."""
        return self("")

    @property
    def meta(self) -> str:
        """Hash: counters (accepted, done, removed, filtered, parked), state, epoch, pages, what the filter is for."""
        return self("meta")

    @property
    def priorities(self) -> str:
        """Sorted set: each priority that has an inbox or ready hosts, scored by itself."""
        return self("priorities")

    def inbox(self, priority: int) -> str:
        """List: the seeds of one priority, oldest first."""
        return self(f"inbox:{priority}")

    @property
    def busy(self) -> str:
        """Sorted set: each host that must wait, scored by its next turn (ms, server time; inf: blocked)."""
        return self("busy")

    @property
    def parked(self) -> str:
        """Hash: each host that has seeds set apart -> their priorities, comma-separated."""
        return self("parked")

    def host(self, priority: int, host: str) -> str:
        """List: the seeds of one priority that are set apart for one host."""
        return self(f"host:{priority}:{host}")

    def ready(self, priority: int) -> str:
        """Sorted set: the hosts with seeds of one priority set apart that need not wait, scored by since when."""
        return self(f"ready:{priority}")

    @property
    def delays(self) -> str:
        """Hash: host -> its own delay between two fetches, in ms, for all workers."""
        return self("delays")

    @property
    def suspects(self) -> str:
        """List: packed leases of dead workers, to be run alone."""
        return self("suspects")

    @property
    def dead(self) -> str:
        """Hash: dead seeds by number, packed with their reason."""
        return self("dead")

    @property
    def workers(self) -> str:
        """Sorted set: worker ids, scored by the time until which their leases hold (ms, server time)."""
        return self("workers")

    @property
    def starting(self) -> str:
        """Set: the workers whose spider has not yet given all of its start requests."""
        return self("starting")

    def session(self, worker: str) -> str:
        """Hash: one worker's last sequence number and what it told of itself."""
        return self(f"session:{worker}")

    def leases(self, worker: str) -> str:
        """Hash: the seeds that one worker holds, packed, by token."""
        return self(f"leases:{worker}")

    @property
    def pages(self) -> str:
        """Hash: host -> how many of its pages this crawl has handed out; kept only while that is limited."""
        return self("pages")

    @property
    def starts(self) -> str:
        """Set: fingerprints of the start requests that this crawl has admitted."""
        return self("starts")

    @property
    def seen(self) -> str:
        """Bloom filter or set: fingerprints seen; bitmaps carry a layer and a block behind this name."""
        return self("seen")

    def bitmap(self, layer: int, block: int) -> str:
        """String: one block of a Bloom filter that is kept in bitmaps."""
        return f"{self.seen}:{layer}:{block}"

    def seen_slice(self, slice: int) -> str:  # noqa: A002 - its name in docs/keyspace.md
        """Bloom filter or set: fingerprints seen in one slice of DEDUP_TTL_S."""
        return f"{self.seen}:{slice}"

    def bitmap_slice(self, slice: int, layer: int, block: int) -> str:  # noqa: A002 - its name in docs/keyspace.md
        """String: one block of the filter of one slice."""
        return f"{self.seen_slice(slice)}:{layer}:{block}"

    def resume(self, site: str) -> str:
        """Hash: how far the spider has come in the lists of one site."""
        return self(f"resume:{site}")

    @property
    def resumes(self) -> str:
        """Sorted set: the sites of which that is known, scored by since when (ms, server time)."""
        return self("resumes")
