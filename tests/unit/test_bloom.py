"""What a filter's errors come to, against what is known of Bloom filters."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.frontier.status import Status
from exporter.bloom import Filter, cost


@pytest.mark.parametrize("error_rate", [0.1, 0.01, 0.001, 0.0001])
def test_a_full_first_layer_has_half_of_the_budget(error_rate: float) -> None:
    full = cost(Filter("bloom", 100_000, 100_000, error_rate))
    assert full.layers == 1
    # Whole hash functions can't hit it exactly, and never miss it by much.
    assert full.error_ratio == pytest.approx(error_rate / 2, rel=0.12)


@pytest.mark.parametrize("times", [1, 3, 7, 15, 100, 1000])
def test_however_far_it_grows_it_stays_within_the_budget(times: int) -> None:
    grown = cost(Filter("bloom", 1000 * times, 1000, 0.001))
    assert grown.error_ratio < 0.001
    assert grown.capacity >= 1000 * times


def test_layers_double() -> None:
    assert [layer.capacity for layer, _ in Filter("bloom", 6000, 1000, 0.01).layers()] == [1000, 2000, 4000]
    assert [held for _, held in Filter("bloom", 6000, 1000, 0.01).layers()] == [1000, 2000, 3000]


def test_ten_million_at_a_thousandth_take_two_bytes_each() -> None:
    assert cost(Filter("bloom", 0, 10_000_000, 0.001)).size_bytes / 10_000_000 == pytest.approx(1.98, abs=0.01)


def test_an_empty_filter_costs_nothing_and_a_fuller_one_more() -> None:
    steps = [cost(Filter("bloom", inserted, 1000, 0.01)) for inserted in range(0, 5000, 250)]
    assert (steps[0].error_ratio, steps[0].lost) == (0, 0)
    assert [step.error_ratio for step in steps] == sorted(step.error_ratio for step in steps)
    assert [step.lost for step in steps] == sorted(step.lost for step in steps)


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        ("", None),
        ("exact", Filter("exact", 5, 0, 0.0)),
        ("bloom capacity=1000 error_rate=0.01", Filter("bloom", 5, 1000, 0.01)),
        ("bitmap capacity=1000 error_rate=1e-05", Filter("bitmap", 5, 1000, 1e-05)),
        ("exact ttl_ms=4000 7=2 9=3", Filter("exact", 5, 0, 0.0, ((7, 2), (9, 3)))),
    ],
)
def test_what_a_frontier_notes_of_its_filter_is_read(noted: str, found: Filter | None) -> None:
    numbers: dict[str, Any] = dict.fromkeys(Status.__struct_fields__, 0)
    dedup, _, slices = noted.partition("4000 ")
    assert Filter.of(Status(**numbers | {"dedup": dedup, "seen": 5, "slices": slices})) == found


def test_slices_share_the_capacity_and_the_error_rate() -> None:
    sliced = Filter("bloom", 1250, 1000, 0.001, tuple((number, 250) for number in range(5)))
    assert list(sliced.parts) == [0, 1, 2, 3, 4]
    now = cost(sliced)
    assert (now.layers, now.capacity) == (1, 1250)
    assert now.error_ratio == pytest.approx(0.0005, rel=0.12)
    grown = cost(Filter("bloom", 12_500, 1000, 0.001, tuple((number, 2500) for number in range(5))))
    assert grown.layers == 4
    assert grown.error_ratio < 0.001
