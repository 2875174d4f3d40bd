"""RoundSums of what all instances of a limit have done, counted once each. Pure.

Instances report what was added since what was counted before. Only a request of an instance that
is known counts, and a request that is sent again counts once; the reply says whether it counted.
If a reply is lost and its receiver is given up before it asks again, its report counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COUNTERS = (
    "operations_done",
    "operations_failed",
    "operations_abandoned",
    "operations_returned",
    "batches_done",
    "batches_failed",
    "batches_abandoned",
    "throttled",
    "retries",
    "pauses",
    "spent_shared",
    "spent_reserved",
    "sync_failures",
    "refunded_shared",
    "refunded_reserved",
    "excess_shared",
    "excess_reserved",
)
"""Names, in the order in which counters are sent and stored. New ones come last."""

OF_A_DIMENSION = (
    "spent_shared",
    "spent_reserved",
    "refunded_shared",
    "refunded_reserved",
    "excess_shared",
    "excess_reserved",
)
"""Which of these each dimension has. Those in COUNTERS are of the first one. New ones come last."""

FIRST_PLACE, PLACES = 24, 8
"""Where the counters of the second dimension begin, and how many places each further one has: so
there is room for counters to come, and none of them ever changes its place."""


def counters_of(dimensions: Sequence[str]) -> tuple[str, ...]:
    """Return the counters of a limit of these dimensions, by place; "" for places without one.
    Those of the second dimension and the further ones are named as in `spent_shared of tokens`.

    >>> counters_of([""]) == COUNTERS
    True
    >>> counters_of(["requests", "tokens"])[FIRST_PLACE : FIRST_PLACE + 2]
    ('spent_shared of tokens', 'spent_reserved of tokens')
    """
    if len(dimensions) < 2:
        return COUNTERS
    names = [*COUNTERS, *[""] * (FIRST_PLACE - len(COUNTERS))]
    for dimension in dimensions[1:]:
        own = [f"{counter} of {dimension}" for counter in OF_A_DIMENSION]
        names += [*own, *[""] * (PLACES - len(own))]
    return tuple(names)


def named(totals: Sequence[float], dimensions: Sequence[str]) -> Mapping[str, float]:
    """Return totals by name; 0 for counters without a value."""
    names = counters_of(dimensions)
    return dict.fromkeys(names, 0.0) | dict(zip(names, totals, strict=False))


def name_in(counter: str, dimension: str, dimensions: Sequence[str]) -> str:
    """Return the name of one of OF_A_DIMENSION, for one of these dimensions.

    >>> name_in("spent_shared", "a", ["a", "b"]), name_in("spent_shared", "b", ["a", "b"])
    ('spent_shared', 'spent_shared of b')
    """
    return counter if dimension == dimensions[0] else f"{counter} of {dimension}"


class Totals:
    """The sums. One per limit. Not thread-safe.

    >>> totals = Totals()
    >>> totals.add((3.0, 1.0))
    >>> totals.add((2.0,))
    >>> totals.counts
    (5.0, 1.0)
    """

    def __init__(self) -> None:
        self.counts: tuple[float, ...] = ()

    def add(self, added: tuple[float, ...]) -> None:
        """Counts what an instance reports."""
        length = max(len(added), len(self.counts))
        before = (*self.counts, *[0.0] * (length - len(self.counts)))
        new = (*added, *[0.0] * (length - len(added)))
        self.counts = tuple(one + other for one, other in zip(before, new, strict=True))
