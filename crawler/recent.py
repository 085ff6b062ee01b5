"""A small memory of fingerprints sent not long ago, so that navigation links are not sent again and again."""


class Recent:
    """Remember the last few fingerprints: between `size` and twice as many, O(1) each.

    What it holds is valid for one generation of the frontier's filter; `forget` begins the next.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def add(self, fingerprint: bytes) -> bool:
        """Note a fingerprint; False when it was there already."""
        if fingerprint in self._young:
            return False
        known = fingerprint in self._old
        self._young.add(fingerprint)
        if len(self._young) >= self.size:
            self._old, self._young = self._young, set()
        return not known

    def forget(self) -> None:
        """Forget everything."""
        self._young.clear()
        self._old.clear()
