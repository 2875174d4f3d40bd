"""Whole slots: who has those that are left over when fair shares are rounded down. Pure.

A share of 1.7 slots is one slot, and a second one for 0.7 of the time. Time is divided into epochs.
In each of them every instance has another place between 0 and 1: multiples of the golden ratio, by
the number of its arrival and that of the epoch, are spread evenly, over instances and over time. It
has a turn with one slot more if its place is below the fraction that was rounded off. A bound on
these, the *lot*, keeps the rights of all within the slots that there are. An epoch lasts until each
of them has had its turn: if all slots are in calls for longer than that, they wait in it.

Where a batch takes several slots, a share is rounded down to whole batches, and what is left of it
is saved: when it has made up for a turn with one batch more, its instance has a place in a *line*,
the further in front the later it is. Those in front have their turns, as many as all save up for
together. Meanwhile the others have less, and between such turns more than their shares: on average
each has its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from limiters.leases._format import (
    EPOCH_INTERVALS,
    GOLDEN_PLACES,
    LOT_BUCKETS,
    LOTS,
    PLACES,
)


def turn_of(interval: int) -> int:
    """How long a turn lasts: a fixed number of sync intervals."""
    return EPOCH_INTERVALS * max(1, interval)


def lot_of(part: float, arrival: int, epoch: int) -> int:
    """The lot of an instance for the fraction of a slot in its share: a slot goes to those with the
    smallest lots. LOT_BUCKETS if there is no fraction."""
    fraction = part - math.floor(part)
    if fraction <= 0:
        return LOT_BUCKETS
    return math.floor(min(_place(arrival, epoch) * LOTS / fraction, LOT_BUCKETS))


def _place(arrival: int, epoch: int) -> float:
    return (arrival % PLACES + epoch % PLACES) * GOLDEN_PLACES % PLACES / PLACES


def drawn(lots: Mapping[int, int], left: int) -> int:
    """Up to which lot, itself not included, instances have one slot more, so that all together have
    no more than the `left` ones; `lots` says how many have each lot.

    >>> drawn({5: 1, 50: 1, 3: 1}, 2)
    50
    """
    if left < 0:
        return 0
    for lot in range(LOT_BUCKETS):
        left -= lots.get(lot, 0)
        if left < 0:
            return lot
    return LOT_BUCKETS


def line_of(late: float, arrival: int, epoch: int) -> int:
    """The place in the line of an instance that has saved up for so many turns more than one: below
    LOTS if its turn has come. Those that are equally late have different places.

    >>> line_of(0.0, 0, 0), line_of(1.0, 0, 0), line_of(1.0, 1, 0), line_of(-0.1, 0, 0)
    (16, 8, 12, 35)
    """
    if late < 0:
        return LOTS + math.floor(min(1.0, -late) * (LOTS - 1))
    return math.floor(LOTS * (1 + _place(arrival, epoch)) / 2 / (1 + late))


def turns_in(lots: Mapping[int, int], left: float, free: float, saved: float, whole: int) -> int:
    """Up to which place in the line, itself not included, instances have turns; `lots` says, behind
    the lots, how many slots those need that have each place.

    All have slots at the same time, of those `left` by turns that are under way. Those whose turn
    has come have them as long as all have `saved` up for more; others only as long as slots are
    `free` that no instance has a right to.

    >>> lots = {LOT_BUCKETS + 5: 10, LOT_BUCKETS + 9: 10, LOT_BUCKETS + 39: 10}
    >>> turns_in(lots, 50, 0, 12, 50), turns_in(lots, 15, 0, 12, 15), turns_in(lots, 5, 0, 12, 15)
    (39, 9, 5)
    >>> turns_in(lots, 50, 30, 12, 50), turns_in(lots, 50, 10, -5, 50)
    (64, 9)
    """
    for place in range(LOT_BUCKETS):
        slots = lots.get(LOT_BUCKETS + place, 0)
        has_come = place < LOTS and saved > 0
        if slots and (slots > left < whole or (slots > free and not has_come)):
            return place
        left, free, saved = left - slots, free - slots, saved - slots
    return LOT_BUCKETS
