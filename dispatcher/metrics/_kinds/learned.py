"""Metrics of learned costs: estimates of the kinds that were used most recently."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator

from dispatcher.learned import Learned
from dispatcher.metrics import _names as names
from dispatcher.metrics.parts import Options, Part, instrumentable
from dispatcher.metrics.readings import Reading
from limiters._costs import Costs

MOST_KINDS = 32
"""Kinds that have a label; a user's kinds may be without number."""

LONGEST_KIND = 100
"""Characters of a kind in a label."""


class LearnedPart:
    """Reads one learned cost."""

    def __init__(self, learned: Learned, options: Options) -> None:
        self._learned = weakref.ref(learned)
        self._name = options.name or "default"

    @property
    def subject(self) -> Learned | None:
        return self._learned()

    def read(self) -> Iterator[Reading]:
        learned = self._learned()
        for one in [] if learned is None else learned.known()[:MOST_KINDS]:
            kind = "" if one.kind is None else str(one.kind)[:LONGEST_KIND]
            labels = self._name, kind
            yield Reading(names.LEARNED_FROM, labels, one.settled)
            if isinstance(one.estimate, Costs):
                for dimension, cost in one.estimate.items():
                    yield Reading(names.LEARNED, (*labels, dimension), cost)
            else:
                yield Reading(names.LEARNED, labels, one.estimate)


@instrumentable(Learned)
def parts_of_learned(learned: Learned, options: Options) -> Iterable[Part]:
    """Return the part of a learned cost."""
    yield LearnedPart(learned, options)
