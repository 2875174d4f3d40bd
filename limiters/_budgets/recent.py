"""What was spent in the last period, by samples of what a ledger has counted in all. Pure."""

from __future__ import annotations

from collections import deque

from limiters._budgets.window import WindowLedger

SAMPLES = 20
"""How many are taken in a period, at most."""


class RecentSpending:
    """What began on `ledger` itself: not what it inherited. Not thread-safe."""

    def __init__(self, ledger: WindowLedger, seconds: float | None = None) -> None:
        """`seconds`: of how long; of the ledger's period if None."""
        self._ledger = ledger
        self.seconds = seconds
        self._samples: deque[tuple[float, float]] = deque()
        """(when, what had begun in all)"""

    @property
    def _length(self) -> float:
        return self._ledger.period if self.seconds is None else self.seconds

    def sample(self, now: float) -> None:
        """To be called whenever something may have begun."""
        total, period = self._ledger.total(), self._length
        samples = self._samples
        if not samples or now - samples[-1][0] >= period / SAMPLES:
            samples.append((now, total))
            while len(samples) > 1 and samples[1][0] <= now - period:
                samples.popleft()

    def spent(self, now: float) -> float:
        """What began in the last period."""
        self.sample(now)
        at, before = self._samples[0]
        total = self._ledger.total()
        longer = now - at - self._length
        if longer <= 0 or len(self._samples) == 1:
            return total - before if longer <= 0 else 0.0
        # The oldest sample lies before the period: a part of what came after it does, too.
        then, after = self._samples[1]
        part = min(1.0, longer / (then - at))
        return max(0.0, total - before - (after - before) * part)

    def since(self, now: float) -> float:
        """For how many seconds it has been sampled, up to those of which it tells."""
        self.sample(now)
        return min(now - self._samples[0][0], self._length)
