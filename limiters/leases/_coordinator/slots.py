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

    >>> drawn({5: 1, 90: 1, 3: 1}, 2)
    90
    """
    if left < 0:
        return 0
    for lot in range(LOT_BUCKETS):
        left -= lots.get(lot, 0)
        if left < 0:
            return lot
    return LOT_BUCKETS


def line_of(late: float, arrival: int, epoch: int) -> int:
    """The place in the line of an instance that has saved up for so many turns more than one;
    LOT_BUCKETS if its turn has not come. Those that are equally late have different places.

    >>> line_of(0.0, 0, 0), line_of(1.0, 0, 0), line_of(1.0, 1, 0), line_of(-0.1, 0, 0)
    (16, 8, 12, 64)
    """
    if late < 0:
        return LOT_BUCKETS
    return math.floor(LOTS * (1 + _place(arrival, epoch)) / 2 / (1 + late))


def turns_in(lots: Mapping[int, int], saved: float, taken: int, whole: int) -> int:
    """Up to which place in the line, itself not included, instances have turns: as long as all save
    up for more, and all have slots at the same time; `lots` says, behind the lots, how many slots
    those need that have each place, and `taken` are those of turns that are under way.

    >>> lots = {LOT_BUCKETS + 5: 10, LOT_BUCKETS + 9: 10, LOT_BUCKETS + 11: 10}
    >>> turns_in(lots, 12.5, 0, 50), turns_in(lots, 12.5, 0, 15), turns_in(lots, 12.5, 10, 15)
    (11, 9, 5)
    """
    left = whole - taken
    for place in range(LOTS):
        slots = lots.get(LOT_BUCKETS + place, 0)
        if slots and (saved <= 0 or slots > left < whole):
            return place
        saved, left = saved - slots, left - slots
    return LOTS
