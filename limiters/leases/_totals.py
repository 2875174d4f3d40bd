"""What all instances of a limit have done together, counted once each. Pure.

Instances report what was added since what was counted before. Only a request of an instance that
is known counts, and a request that is sent again counts once; the reply says whether it counted.
If a reply is lost and its receiver is given up before it asks again, its report counts twice.
"""

from __future__ import annotations

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
)
"""What is counted, in the order in which it is sent and stored. New ones come last."""


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
