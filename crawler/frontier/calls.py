"""Each verb's keys and arguments, and how its answer is read."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from crawler.frontier.keys import Keys
from crawler.frontier.messages import Ack, Answer, Idle, Lease, Link, Opened, Turn, Want
from crawler.frontier.rules import Rules
from crawler.frontier.status import Status
from crawler.frontier.wire import pack, raw

#: What `turn_of` in _session.lua answers.
LOST, NEXT, AGAIN = 0, 1, 2

#: Priorities up to here are exact; what lies beyond, either way, counts as this.
HIGHEST_PRIORITY = 2**53

#: The number of a call, and whether the call before it handed seeds out: see _session.lua.
Number = tuple[int, int]


class Call(NamedTuple):
    """Hold one call of a verb."""

    name: str
    #: All on one server, and at least one.
    keys: Sequence[str]
    args: Sequence[Any]


def bounded(priority: float) -> int:
    """Return *priority* as the frontier keeps it."""
    return int(min(max(priority, -HIGHEST_PRIORITY), HIGHEST_PRIORITY))


class SessionCalls:
    """Make the calls of one worker's session."""

    def __init__(self, keys: Keys, worker: str, rules: Rules) -> None:
        self._keys = keys
        self._worker = worker
        self._rules = rules
        self._order = "lifo" if rules.lifo else "fifo"
        self._limits = pack(
            {
                "pages": rules.max_pages,
                "host_pages": rules.max_host_pages,
                "seeds": rules.max_seeds,
                "drops": rules.drops,
                "ttl_ms": rules.dedup.ttl_ms,
            }
        )

    def open(self, seq: int, *, begin: bool, starting: bool, held: Sequence[str]) -> Call:
        """Return the call that begins the session; see `Frontier.open`."""
        keys, rules = self._keys, self._rules
        names = [keys.session(self._worker), keys.leases(self._worker), keys.priorities, keys.busy, keys.suspects]
        names += [keys.workers, keys.starting, keys.meta, keys.seen]
        args: list[Any] = [keys.base, self._worker, seq, rules.lease_ms, rules.project, int(begin), int(starting)]
        return Call("open", names, [*args, pack(held), *rules.dedup.argv, rules.max_pages, rules.max_seeds])

    def release(self, number: Number, mode: str, tokens: Sequence[str]) -> Call:
        """Return the call that gives leases back."""
        keys = self._keys
        names = [keys.session(self._worker), keys.leases(self._worker), keys.priorities, keys.busy, keys.suspects]
        names += [keys.workers, keys.starting, keys.meta]
        return Call("release", names, [keys.base, self._worker, *number, mode, pack(tokens)])

    def push(self, number: Number, links: Iterable[Link]) -> Call:
        """Return the call that brings links."""
        keys, rules = self._keys, self._rules
        flat: list[Any] = []
        for priority, fingerprint, kind, seed in links:
            flat += bounded(priority), raw(fingerprint), kind, raw(seed)
        names = [keys.session(self._worker), keys.meta, keys.priorities, keys.starts, keys.parked, keys.dead, keys.seen]
        return Call("push", names, [keys.base, *number, self._order, *rules.dedup.argv, pack(flat), self._limits])

    def complete(self, number: Number, acks: Iterable[Ack], turns: Iterable[Turn]) -> Call:
        """Return the call that acknowledges pages and reports turns."""
        keys = self._keys
        names = [keys.session(self._worker), keys.leases(self._worker), keys.meta, keys.priorities]
        names += [keys.busy, keys.parked, keys.dead]
        flat: list[Any] = []
        for ack in acks:
            children: list[Any] = []
            for priority, seed in ack.children:
                children += bounded(priority), raw(seed)
            flat += ack.token, ack.reason, children
        waits = [value for turn in turns for value in turn]
        return Call("complete", names, [keys.base, *number, self._order, pack(flat), pack(waits), self._limits])

    def pop(self, number: Number, want: Want) -> Call:
        """Return the call that takes seeds."""
        keys, rules = self._keys, self._rules
        names = [keys.session(self._worker), keys.workers, keys.meta, keys.priorities, keys.busy, keys.parked]
        names += [keys.suspects, keys.leases(self._worker), keys.delays, keys.starting, keys.dead]
        args = [keys.base, self._worker, *number, want.seeds, rules.delay_ms, want.per_host, rules.scan + want.seeds]
        return Call("pop", names, [*args, int(want.started), pack(want.held), self._limits])

    def reclaim(self, limit: int) -> Call:
        """Return the call that takes back leases of dead workers."""
        keys, rules = self._keys, self._rules
        names = [keys.workers, keys.meta, keys.busy, keys.suspects, keys.dead, keys.starting]
        return Call("reclaim", names, [keys.base, self._worker, rules.lease_ms, limit, rules.max_deaths])

    def finish(self, epoch: int) -> Call:
        """Return the call that agrees on the end of a crawl."""
        keys = self._keys
        names = [keys.meta, keys.priorities, keys.suspects, keys.workers, keys.starting, keys.starts, keys.seen]
        return Call("finish", names, [keys.base, epoch, int(self._rules.keep_seen)])


def clear_call(keys: Keys, *, forget: bool) -> Call:
    """Return the call that empties the queue, and the filter too if it is to *forget*."""
    names = [keys.meta, keys.priorities, keys.parked, keys.suspects, keys.workers, keys.starts, keys.seen]
    return Call("clear", names, [keys.base, int(forget)])


def status_call(keys: Keys) -> Call:
    """Return the call that looks at the whole frontier."""
    names = [keys.meta, keys.priorities, keys.busy, keys.suspects, keys.dead, keys.workers, keys.starting]
    return Call("status", names, [keys.base])


def oldest_call(seeds_list: str, seeds: int, size_bytes: int) -> Call:
    """Return the call that looks for a stamp in the first *seeds* of a list, as far as about *size_bytes*."""
    return Call("oldest", [seeds_list], [seeds, size_bytes])


def read_status(reply: bytes) -> Status:
    """Return what the `status` verb answered."""
    return msgspec.json.decode(reply, type=Status)


def read_opened(reply: Sequence[Any]) -> Opened:
    """Return what the `open` verb answered."""
    was, epoch, generation, missing, project, began_ms = reply
    tokens = frozenset(token.decode() for token in missing)
    return Opened(was, epoch, generation, tokens, f"{epoch}:{began_ms}", project.decode())


def read_answers(calls: Sequence[Call], replies: Sequence[Sequence[Any]]) -> Answer:
    """Return what the verbs of one exchange answered."""
    if any(reply[0] == LOST for reply in replies):
        return Answer(lost=True)
    answer = Answer()
    for call, reply in zip(calls, replies, strict=True):
        if call.name == "push":
            _, answer.accepted, answer.filtered, full = reply
            answer.full = bool(full)
        elif call.name == "complete":
            _, answer.done, answer.stale = reply
        else:
            _read_pop(reply, answer)
    return answer


def _read_pop(reply: Sequence[Any], answer: Answer) -> None:
    _, answer.generation, state, leases, idle, full, answer.waits_ms = reply
    answer.full = bool(full)
    answer.state = state.decode()
    answer.leases = [
        Lease(leases[i].decode(), int(leases[i + 1]), leases[i + 2], leases[i + 3]) for i in range(0, len(leases), 4)
    ]
    if idle:
        queued, leased, starting, wait_ms, drain, workers = idle
        answer.idle = Idle(queued, leased, starting, wait_ms, bool(drain), workers)
