"""What a worker asked of each host and got: series for the hosts that matter most, however many a crawl visits."""

import re
from collections.abc import Callable, Iterator
from heapq import nlargest
from time import monotonic

#: Hosts with series of their own.
NAMED = 20
#: Stands for all others. No site has this name: a host without a dot is none of the public's.
OTHER = "other"
#: Hosts that are weighed, at least: those that weigh least are forgotten when there are twice as many.
WEIGHED = 1000
#: A request that failed or was refused weighs as much as so many others.
FAILURE_WEIGHT = 10
#: How often is looked whether other hosts matter more by now, seconds; what was before then counts half.
REVIEW_S = 60.0
#: An unnamed host must weigh so many times what a named one does to take its place: or they would change all the time.
ADVANTAGE = 1.5

#: What may stand in a label: a host's name comes from the web.
_is_name = re.compile(r"[a-z0-9._:-]{1,100}").fullmatch


class Tally:
    """Hold what was counted of one host."""

    __slots__ = ("failed", "latency_s", "refused", "requests", "responses")

    def __init__(self) -> None:
        self.requests = 0
        #: Those without a response, or whose response says that the server failed.
        self.failed = 0
        #: Those answered 403, 429 or 503.
        self.refused = 0
        self.responses = 0
        self.latency_s = 0.0


class HostTallies:
    """Count by host, for NAMED hosts at most; the rest are counted together, as OTHER.

    Nothing counted ever goes down. A host that is named counts from 0; what it had before stays with the others. One
    that loses its name to a host that matters more takes what it counted along: its series ends, and the others' do not
    jump. So rates are right by host and in sum, and raw totals are not to be added up.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._named: dict[str, Tally] = {}
        self._others = Tally()
        #: Host -> requests and failures of late.
        self._weights: dict[str, float] = {}
        self._reviewed_s = clock()

    def note(self, host: str, status: int, latency_s: float) -> None:
        """Count a request that is over; *status* 0: there was no response. About a microsecond."""
        failed, refused = not 0 < status < 500, status in (403, 429, 503)
        tally = self._others
        if _is_name(host) and host != OTHER:
            self._weights[host] = self._weights.get(host, 0) + (FAILURE_WEIGHT if failed or refused else 1)
            if len(self._weights) >= 2 * WEIGHED:
                self._weights = dict(nlargest(WEIGHED, self._weights.items(), key=lambda item: item[1]))
            if len(self._named) < NAMED and host not in self._named:
                self._named[host] = Tally()
            tally = self._named.get(host, tally)
        tally.requests += 1
        tally.failed += failed
        tally.refused += refused
        if status:
            tally.responses += 1
            tally.latency_s += latency_s
        if self._clock() - self._reviewed_s >= REVIEW_S:
            self._review()

    def __iter__(self) -> Iterator[tuple[str, Tally]]:
        """Give each host that has a name, and the others; may be called beside the event loop's thread."""
        yield from list(self._named.items())
        yield OTHER, self._others

    def _review(self) -> None:
        """Give the names of hosts that matter little by now to those that matter more."""
        self._reviewed_s = self._clock()
        weight_of = self._weights.get
        candidates = nlargest(NAMED, self._weights.keys() - self._named.keys(), key=lambda host: weight_of(host, 0))
        for host, named in zip(candidates, sorted(self._named, key=lambda host: weight_of(host, 0)), strict=False):
            if weight_of(host, 0) <= ADVANTAGE * weight_of(named, 0):
                break
            del self._named[named]
            self._named[host] = Tally()
        self._weights = {host: weight / 2 for host, weight in self._weights.items()}
