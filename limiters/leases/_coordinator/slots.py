"""Whole slots: who has one of those that are left over when fair shares are rounded down. Pure.

A share of 1.7 slots is one slot, and a second one for 0.7 of the time. Time is divided into epochs.
In each of them every instance has another place between 0 and 1: multiples of the golden ratio, by
the number of its arrival and that of the epoch, are spread evenly, over instances and over time. It
has a turn with one slot more if its place is below the fraction that was rounded off. A bound on
these, the *lot*, keeps the rights of all within the slots that there are. An epoch lasts until each
of them has had its turn: if all slots are in calls for longer than that, they wait in it.
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
    place = (arrival % PLACES + epoch % PLACES) * GOLDEN_PLACES % PLACES
    return math.floor(min(place / PLACES * LOTS / fraction, LOT_BUCKETS))


def drawn(lots: Mapping[int, int], left: int) -> int:
    """Up to which lot, itself not included, instances have one slot more, so that all together have
    no more than the `left` ones; `lots` says how many have each lot.

    >>> drawn({5: 1, 90: 1, 3: 1}, 2)
    90
    """
    if left < 0:
        return 0
    for lot in sorted(lots):
        left -= lots[lot]
        if left < 0:
            return lot
    return LOT_BUCKETS
