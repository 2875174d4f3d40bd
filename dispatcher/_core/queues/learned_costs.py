"""Which learned costs a Batcher has taught, for people who look at its limit."""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Hashable, Iterator

from dispatcher.learned import Learned
from limiters._support.learned_cost import LONGEST_KIND, MOST_COSTS, LearnedCost


class LearnedCosts:
    """The learned costs of one Batcher. It keeps none of them alive, however many a user makes.
    Thread-safe: each access to the dict is one step."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Learned], str, str]] = {}
        """By identity: each with the dimension of its numbers, and the name of its only kind."""

    def add(self, learned: Learned, dimension: str = "", called: str = "") -> None:
        """Operations of this Batcher have taught `learned`."""
        key = id(learned)
        if key not in self._known:
            known = self._known
            reference = weakref.ref(learned, lambda _: known.pop(key, None))
            known[key] = reference, dimension, called

    def read(self) -> list[LearnedCost]:
        """Return what is learned of the kinds that were settled most often."""
        return heapq.nlargest(MOST_COSTS, self._all(), key=lambda one: one.settled)

    def _all(self) -> Iterator[LearnedCost]:
        for reference, dimension, called in list(self._known.values()):
            learned = reference()
            for kind, settled, estimate, cold in (
                learned._most_settled(MOST_COSTS) if learned else ()
            ):
                name = called if kind is None else _text_of(kind)
                for of, cost in estimate.items():
                    yield LearnedCost(name, of or dimension, cost, settled, of in cold)


def _text_of(kind: Hashable) -> str:
    """The text of a user's object, which may raise instead."""
    try:
        return str(kind)[: LONGEST_KIND + 1]
    except Exception:
        return type(kind).__name__
