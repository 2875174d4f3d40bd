"""The storms with costs that are only estimated before a call, and known at its end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from limiters.testing import Estimated, MixedCalls, Work
from tests.simulation.weather import Weather


class Settled(Weather):
    """A mixin in front of a kind of weather: estimates are upper bounds."""

    def work(self) -> Work:
        """Return the work of one instance; most of its calls cost less than was estimated."""
        random, work = self.random, super().work()
        own = Random(random.random())
        parts = random.choice([[0.0, 0.2, 1.0], [0.2], [0.1, 0.5, 1.0], [1.0]])
        streams = random.choice([0.0, 0.3])
        if isinstance(work, MixedCalls):  # they have a duration of their own
            return Estimated(work, own, parts=parts, lasting=work.lasting, streams=streams)
        period = self.cluster.terms.period / 1000
        longest = min(period, 60.0) * random.choice([0.01, 0.1, 0.5, 1.2])
        return Estimated(work, own, parts=parts, lasting=(0.0, longest), streams=streams)


def settled(kind: Callable[..., Weather]) -> Callable[..., Weather]:
    """That kind of weather, with costs that are settled."""
    assert isinstance(kind, type)
    return type(f"Settled{kind.__name__}", (Settled, kind), {})
