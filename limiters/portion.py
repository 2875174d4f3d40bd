"""Which part of what was spent goes along when capacity changes hands. Pure.

Any part would keep the windows within the limit, as long as neither side counts more than it
holds. Entries go whole, as far as possible, and evenly over the period: who sends pieces of one
size then finds room for whole pieces again as the entries age, instead of crumbs of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from limiters.float_error import FLOAT_ERROR, covers

Key = TypeVar("Key", int, float)


def portion(
    entries: Sequence[tuple[Key, float]], target: float
) -> tuple[list[tuple[Key, float]], list[tuple[Key, float]]]:
    """Entries of `target` cost in all, and those that are left, each in the same order.

    >>> portion([(1, 10.0), (2, 10.0), (3, 10.0), (4, 10.0)], 20.0)
    ([(2, 10.0), (4, 10.0)], [(1, 10.0), (3, 10.0)])
    >>> portion([(1, 10.0), (2, 10.0)], 5.0)
    ([(2, 5.0)], [(1, 10.0), (2, 5.0)])
    """
    total = sum(cost for _, cost in entries)
    if target >= total:
        return list(entries), []
    share = max(0.0, target) / total
    taken, left = [], []
    owed = 0.0
    for at, cost in entries:
        owed += cost * share
        if covers(owed, cost):
            taken.append((at, cost))
            owed = max(0.0, owed - cost)
        else:
            left.append((at, cost))
    # What is still owed is less than an entry or so: the newest ones are cut.
    at_entry = len(left) - 1
    while owed > total * FLOAT_ERROR and at_entry >= 0:
        at, cost = left[at_entry]
        cut = min(cost, owed)
        taken.append((at, cut))
        left[at_entry] = (at, cost - cut)
        owed -= cut
        at_entry -= 1
    return sorted(taken), [(at, cost) for at, cost in left if cost > 0]
