"""Show what each frontier's memory goes to, by samples that are spread over many scrapes."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import nlargest
from typing import Any, NamedTuple

from crawler.frontier.keys import Keys
from crawler.frontier.status import Status
from exporter import names
from exporter.bloom import Filter
from exporter.exposition import Exposition
from exporter.frontier import Frontiers
from exporter.line import Question, pairs
from exporter.names import MemoryPart
from exporter.rota import Rota

#: How long a sample stands, seconds.
FRESH_S = 60.0
#: Spiders that one scrape samples at most, those sampled longest ago first.
SPIDERS_A_SCRAPE = 20
#: Elements (of a list: its nodes) that Redis looks at to know a key's size.
ELEMENTS = 50
#: Keys of a kind that are looked at; the others are taken to be like them.
LIKE_KEYS = 20


class Sampled(NamedTuple):
    """Hold one key to be looked at, and how many of its like it stands for."""

    part: MemoryPart
    key: str
    weight: float = 1.0


class Memory(NamedTuple):
    """Hold what one frontier takes, bytes."""

    parts: Counter[MemoryPart]
    #: Of the keys that were looked at.
    largest_bytes: int


_PARTS: tuple[MemoryPart, ...] = ("queue", "hosts", "leases", "seen", "dead", "other")


class MemoryCollector:
    """Sample some spiders at each scrape, and show the last sample of all."""

    name = "memory"

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers
        self._rota: Rota[Memory] = Rota(FRESH_S, SPIDERS_A_SCRAPE)

    def collect(self, out: Exposition) -> None:
        """Sample what is due, in two round trips."""
        for spider, memory in self._rota.refresh(self._frontiers.statuses, self._sample).items():
            for part in _PARTS:
                out.add(names.MEMORY, memory.parts[part], spider, part)
            out.add(names.LARGEST_KEY, memory.largest_bytes, spider)

    def _sample(self, spiders: list[str]) -> dict[str, "Memory"]:
        statuses = {spider: self._frontiers.statuses[spider] for spider in spiders}
        ask = self._frontiers.line.ask
        asked = ask([question for spider in statuses for question in _questions(Keys(spider))])
        plans: dict[str, list[Sampled]] = {}
        for i, (spider, status) in enumerate(statuses.items()):
            hosts, parked = asked[2 * i : 2 * i + 2]
            plans[spider] = list(_plan(Keys(spider), status, hosts, parked))
        sizes = [
            Question.of("MEMORY USAGE", sampled.key, "SAMPLES", ELEMENTS) for plan in plans.values() for sampled in plan
        ]
        answers = iter(ask(sizes))
        found: dict[str, Memory] = {}
        for spider, plan in plans.items():
            parts: Counter[MemoryPart] = Counter()
            largest_bytes = 0
            for sampled in plan:
                size_bytes = next(answers) or 0
                parts[sampled.part] += round(sampled.weight * size_bytes)
                largest_bytes = max(largest_bytes, size_bytes)
            found[spider] = Memory(parts, largest_bytes)
        return found


def _questions(keys: Keys) -> Iterator[Question]:
    """Yield what has to be known of a spider before all of its keys can be named."""
    yield Question.of("HRANDFIELD", keys.parked, LIKE_KEYS, "WITHVALUES")
    yield Question.of("HLEN", keys.parked)


def _plan(keys: Keys, status: Status, hosts: Any, parked: Any) -> Iterator[Sampled]:
    """Yield the keys to look at; the last two are the answers to `_questions`."""
    for key in (keys.priorities, keys.suspects):
        yield Sampled("queue", key)
    for key in (keys.busy, keys.parked, keys.delays):
        yield Sampled("hosts", key)
    for key in (keys.workers, keys.starting):
        yield Sampled("leases", key)
    yield Sampled("seen", keys.starts)
    yield Sampled("dead", keys.dead)
    yield Sampled("other", keys.meta)

    inboxes = nlargest(LIKE_KEYS, status.inboxes, key=lambda priority: status.inboxes[priority])
    seeds_in = sum(status.inboxes[priority] for priority in inboxes) or 1
    for priority in inboxes:
        yield Sampled("queue", keys.inbox(priority), sum(status.inboxes.values()) / seeds_in)
        yield Sampled("hosts", keys.ready(priority))
    workers = list(status.workers)[:LIKE_KEYS]
    yield from _alike("leases", map(keys.leases, workers), len(status.workers))
    yield from _alike("leases", map(keys.session, workers), len(status.workers))
    lists = [keys.host(int(at.split(b",")[0]), host.decode(errors="replace")) for host, at in pairs(hosts)]
    yield from _alike("hosts", lists, int(parked))
    made = Filter.of(status)
    for slice_number, part in made.parts.items() if made else ():
        if part.kind != "bitmap":
            yield Sampled("seen", keys.seen if slice_number is None else keys.seen_slice(slice_number))
            continue
        bitmap = keys.bitmap if slice_number is None else partial(keys.bitmap_slice, slice_number)
        for number, (layer, _) in enumerate(part.layers()):
            blocks = range(0, layer.blocks, -(-layer.blocks // LIKE_KEYS))
            yield from _alike("seen", (bitmap(number, block) for block in blocks), layer.blocks)


def _alike(part: MemoryPart, keys: Iterable[str], total: int) -> Iterator[Sampled]:
    """Yield *keys* so weighted that they stand for *total*."""
    looked_at = list(keys)
    for key in looked_at:
        yield Sampled(part, key, total / len(looked_at))
