"""Where on its page an item stood when the spider gave it, whatever pipelines make of it and in whatever order."""

from collections import deque


class Places:
    """Number what one callback gives, and find each number again at the end of the pipelines.

    A pipeline may drop an item, take longer over one than over the next, or return another object: so an item is found
    by its identity, and what nobody knows takes the first place that is left. Two that were both delayed and replaced
    may thus change places, but no two ever share one. Holds the items that are under way.
    """

    __slots__ = ("_next", "_waiting")

    def __init__(self) -> None:
        self._next = 0
        self._waiting: deque[tuple[object, int]] = deque()

    def give(self, item: object) -> None:
        """Give the next place to *item*, which goes to the pipelines now."""
        self._waiting.append((item, self._next))
        self._next += 1

    def take(self, item: object) -> int:
        """Return the place of *item*, which has left the pipelines. O(items that are under way)."""
        for index, (waiting, place) in enumerate(self._waiting):
            if waiting is item:
                del self._waiting[index]
                return place
        if self._waiting:
            return self._waiting.popleft()[1]
        # The outcome of an errback whose download failed is shown to nobody before.
        self._next += 1
        return self._next - 1
