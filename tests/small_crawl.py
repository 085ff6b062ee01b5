"""A small web of which it is known what there is to find, and workers that crawl it as the scheduler does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crawler.frontier.frontier import Frontier
from crawler.frontier.messages import START, Ack, Answer, Lease, Link, Turn, Want
from crawler.hand import Page
from crawler.outbox import Outbox
from tests.fleet import host_of, link, seed


@dataclass(frozen=True)
class Web:
    """Hold the addresses `http://h<n>/<page>`, with links that lead everywhere from the start."""

    pages: int
    hosts: int = 4

    def url(self, page: int) -> str:
        return f"http://h{page % self.hosts}/{page}"

    def link(self, page: int, kind: int = 0) -> Link:
        return link(self.url(page), page % 3 - 1, kind)

    @property
    def starts(self) -> list[Link]:
        """Return the start requests, of pages that no link leads to."""
        return [self.link(self.pages, START), self.link(self.pages + 1, START)]

    def links_of(self, page: int) -> list[Link]:
        if page >= self.pages:
            return [self.link(page - self.pages), self.link(2 * self.pages - 1 - page)]
        found = {2 * page + 1, 2 * page + 2, (7 * page + 3) % self.pages, page}
        return [self.link(other) for other in sorted(found) if other < self.pages]

    def children_of(self, page: int) -> list[tuple[int, bytes]]:
        """Return the requests of a page that no filter guards; they lead nowhere."""
        return [(page % 3 - 1, seed(self.url(page) + "/unfiltered"))] if page % 5 == 0 else []

    def is_bad(self, page: int) -> bool:
        return page % 13 == 12

    def seeds(self) -> Counter[bytes]:
        """Return every seed that a whole crawl accepts."""
        seen: set[bytes] = set()
        children: list[bytes] = []
        left = [one.seed for one in self.starts]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                page = page_of(one)
                if not self.is_bad(page):
                    left += [found.seed for found in self.links_of(page)]
                    children += [child for _, child in self.children_of(page)]
        return Counter([*seen, *children])


def page_of(one: bytes) -> int:
    return int(one.rsplit(b"/", 1)[1])


class Worker:
    """Do what the scheduler and its conversation do with a frontier, and no more."""

    def __init__(self, frontier: Frontier, web: Web) -> None:
        self.frontier = frontier
        self.web = web
        self.outbox = Outbox(10**9)
        self.ahead: dict[str, Lease] = {}
        self.begun: dict[Page, Lease] = {}
        self.unsettled: set[Page] = set()
        self.turns: list[Turn] = []
        #: How often its session was opened.
        self.opens = 0

    @property
    def tokens(self) -> set[str]:
        """Return the tokens of all leases that it believes to have."""
        return {*self.ahead, *(page.token for page in (*self.begun, *self.unsettled))} - {""}

    @property
    def has_more_to_say(self) -> bool:
        return bool(self.outbox or self.begun or self.turns)

    async def open(self) -> None:
        await self.frontier.open(begin=True, starting=True)
        for start in self.web.starts:
            self.outbox.put(start)
        self.opens += 1

    async def reopen(self, unsent: list[Link]) -> None:
        """Begin the session again; what was begun is given up."""
        opened = await self.frontier.open(begin=False, starting=True, held=list(self.ahead), patient=True)
        for page in (*self.begun, *self.unsettled):
            page.void()
        for token in opened.missing:
            del self.ahead[token]
        self.unsettled.difference_update(self.outbox.rewind(opened.was, unsent))
        self.turns.clear()
        self.opens += 1

    async def say(
        self, limit: int = 100, want: int = 0, per_host: int = 100
    ) -> tuple[list[Link], Sequence[Ack], Sequence[Turn], Answer]:
        """Say what there is to say, *limit* entries at most; return it, and the answer."""
        links, pages = self.outbox.take(limit)
        turns, self.turns = self.turns, []
        acks = [page.ack for page in pages if page.token]
        held = Counter(host_of(lease.seed) for lease in self.ahead.values())
        wants = Want(want, per_host, held, started=True) if want else None
        answer = await self.frontier.exchange(links, acks, turns, wants)
        self.unsettled.difference_update(pages)
        if not answer.lost:
            self.outbox.note_sent(self.frontier.seq, links)
            self.ahead |= {lease.token: lease for lease in answer.leases}
        return links, acks, turns, answer

    def begin(self, count: int) -> None:
        """Begin pages that were taken ahead."""
        for token in list(self.ahead)[:count]:
            lease = self.ahead.pop(token)
            self.begun[Page(lease)] = lease
            if lease.delay_ms:
                self.turns.append(Turn(token, lease.delay_ms))

    def finish(self, count: int) -> None:
        """Finish pages that were begun: their links go out before they do."""
        for page in list(self.begun)[:count]:
            lease = self.begun.pop(page)
            if not lease.seed.endswith(b"unfiltered"):
                number = page_of(lease.seed)
                if self.web.is_bad(number):
                    page.reason = "bad"
                else:
                    for found in self.web.links_of(number):
                        self.outbox.put(found)
                    page.children += self.web.children_of(number)
            self.unsettled.add(page)
            self.outbox.put(page)
