"""The recent growth of a sum that never falls, by samples. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

SAMPLES = 20
"""How many are taken in that time, at most."""


class Recent:
    """By how much `total()` has grown in the last `seconds`. Not thread-safe.

    >>> spent = [0.0]
    >>> recent = Recent(lambda: spent[0], seconds=1.0)
    >>> recent.sample(0.0)
    >>> spent[0] = 5.0
    >>> recent.grown(0.5), recent.grown(2.0)
    (5.0, 0.0)
    """

    def __init__(self, total: Callable[[], float], seconds: float) -> None:
        self._total = total
        self.seconds = seconds
        self._samples: deque[tuple[float, float]] = deque()
        """(when, how much it was)"""

    def sample(self, now: float) -> None:
        """Take a sample: callers call it whenever the sum may have grown."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= self.seconds / SAMPLES:
            samples.append((now, self._total()))
            while len(samples) > 1 and samples[1][0] <= now - self.seconds:
                samples.popleft()

    def grown(self, now: float) -> float:
        """Return how much it has grown in that time."""
        self.sample(now)
        at, before = self._samples[0]
        total = self._total()
        longer = now - at - self.seconds
        if longer <= 0 or len(self._samples) == 1:
            return total - before if longer <= 0 else 0.0
        # The oldest sample lies before that time: a part of what came after it does, too.
        then, after = self._samples[1]
        part = min(1.0, longer / (then - at))
        return max(0.0, total - before - (after - before) * part)

    def since(self, now: float) -> float:
        """For how many seconds it has been sampled, at most those that it covers."""
        self.sample(now)
        return min(now - self._samples[0][0], self.seconds)
