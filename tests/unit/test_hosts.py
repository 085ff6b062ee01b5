"""Counting by host: bounded, never downwards, and with names for the hosts that matter."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from crawler.metrics.hosts import NAMED, OTHER, REVIEW_S, WEIGHED, HostTallies


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tallies(clock: Clock) -> HostTallies:
    return HostTallies(clock)


def requests_of(tallies: HostTallies) -> dict[str, int]:
    return {host: tally.requests for host, tally in tallies}


def test_what_is_counted_of_a_host(tallies: HostTallies) -> None:
    for status in (200, 404, 403, 429, 503, 500, 0):
        tallies.note("shop.example", status, 0.5)
    found = dict(tallies)["shop.example"]
    assert (found.requests, found.failed, found.refused) == (7, 3, 3)
    assert (found.responses, found.latency_s) == (6, 3.0)


def test_the_others_are_there_from_the_start(tallies: HostTallies) -> None:
    assert requests_of(tallies) == {OTHER: 0}


def test_hosts_beyond_those_named_are_counted_together(tallies: HostTallies) -> None:
    for number in range(NAMED + 5):
        tallies.note(f"host{number}.example", 200, 0)
    found = requests_of(tallies)
    assert len(found) == NAMED + 1
    assert found[OTHER] == 5


@pytest.mark.parametrize(
    "host", ["", "a" * 101, 'a"} 1\n', "caf\u00e9.example", "a b.example", OTHER, "A.example", "\udc80.example"]
)
def test_what_is_no_name_for_a_label_counts_as_other(tallies: HostTallies, host: str) -> None:
    tallies.note(host, 200, 0)
    assert requests_of(tallies) == {OTHER: 1}


def test_a_host_that_matters_more_takes_the_name_of_one_that_does_not(tallies: HostTallies, clock: Clock) -> None:
    for number in range(NAMED):
        for _ in range(10 + number):
            tallies.note(f"host{number}.example", 200, 0)
    for _ in range(3):
        tallies.note("bad.example", 0, 0)  # ten times as heavy as what succeeds
    assert requests_of(tallies)[OTHER] == 3
    clock.now_s += REVIEW_S
    tallies.note("host19.example", 200, 0)
    found = requests_of(tallies)
    assert "host0.example" not in found
    assert found["bad.example"] == 0  # what was counted with the others stays there
    assert found[OTHER] == 3
    tallies.note("bad.example", 0, 0)
    assert requests_of(tallies)["bad.example"] == 1


def test_names_do_not_change_for_little(tallies: HostTallies, clock: Clock) -> None:
    for number in range(NAMED):
        for _ in range(10):
            tallies.note(f"host{number}.example", 200, 0)
    for _ in range(13):
        tallies.note("rival.example", 200, 0)
    clock.now_s += REVIEW_S
    tallies.note("host1.example", 200, 0)
    assert "rival.example" not in requests_of(tallies)


def test_what_was_long_ago_counts_little(tallies: HostTallies, clock: Clock) -> None:
    for number in range(NAMED):
        for _ in range(100):
            tallies.note(f"old{number}.example", 200, 0)
    for _ in range(6):
        clock.now_s += REVIEW_S
        for _ in range(10):
            tallies.note("new.example", 200, 0)
    assert "new.example" in requests_of(tallies)


def test_nothing_counted_goes_down_and_every_request_counts_once(clock: Clock, tallies: HostTallies) -> None:
    """As Prometheus reckons: by differences of each series, one that is new beginning at 0."""
    chance = random.Random(7)
    before: dict[str, int] = {}
    counted: Counter[str] = Counter()
    rounds, each = 60, 400
    for _ in range(rounds):
        for _ in range(each):
            host = f"host{int(chance.paretovariate(0.6)) % 3000}.example"
            tallies.note(host, chance.choice((200, 200, 200, 503, 0)), 0.1)
            after = requests_of(tallies)  # a scrape after each request: nothing happens in between
            for name, number in after.items():
                assert number >= before.get(name, 0)
                counted[name] += number - before.get(name, 0)
            before = after
        clock.now_s += REVIEW_S / 3
    assert counted.total() == rounds * each
    assert len(counted) > NAMED + 1  # names did change hands


def test_memory_is_bounded_however_many_hosts_there_are(tallies: HostTallies) -> None:
    for number in range(10 * WEIGHED):
        tallies.note(f"host{number}.example", 200, 0)
    assert len(tallies._weights) < 2 * WEIGHED
    assert len(list(tallies)) == NAMED + 1
