"""Samples by turns: each spider has its turn, those that waited longest first, and what is gone is forgotten."""

from __future__ import annotations

from exporter.rota import Rota


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Sampler:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, spiders: list[str]) -> dict[str, int]:
        self.asked.append(spiders)
        return dict.fromkeys(spiders, len(self.asked))


def test_a_sample_stands_for_its_time() -> None:
    clock = Clock()
    turns, sampler = Rota[int](10, 5, clock), Sampler()
    assert turns.refresh(["a"], sampler) == {"a": 1}
    clock.now_s = 9.9
    assert turns.refresh(["a"], sampler) == {"a": 1}
    clock.now_s = 10
    assert turns.refresh(["a"], sampler) == {"a": 3}
    assert sampler.asked == [["a"], [], ["a"]]


def test_of_many_those_come_first_whose_sample_is_oldest() -> None:
    clock = Clock()
    turns, sampler = Rota[int](10, 2, clock), Sampler()
    for second in range(6):
        clock.now_s = second * 10
        turns.refresh(["a", "b", "c", "d", "e"], sampler)
    assert sampler.asked == [["a", "b"], ["c", "d"], ["e", "a"], ["b", "c"], ["d", "a"], ["e", "b"]]


def test_what_is_gone_is_forgotten() -> None:
    clock = Clock()
    turns, sampler = Rota[int](10, 5, clock), Sampler()
    turns.refresh(["a", "b"], sampler)
    assert turns.refresh(["b"], sampler) == {"b": 1}
