"""How much of a share may be released: the rest has to cover what may start at any moment. Pure."""

from __future__ import annotations

import math

from limiters._budgets.window import WindowLedger
from limiters._support.float_error import covers


def releasable(ledger: WindowLedger, units: int, held: int, worth: float, now: float) -> int:
    """As much of `units` as can go, where all that is `held` is worth that much."""
    spent = ledger.spent(now)  # first: what has begun is pledged no longer
    pledged = ledger.pledged
    if not units or not pledged:
        return units
    free = worth - (spent - ledger.starting)
    if free <= pledged:
        return 0
    return min(units, math.floor(held * (1 - pledged / free)))


def last_release(ledger: WindowLedger, held: int, worth: float, now: float) -> int:
    """All but what may start at any moment costs. What was spent goes along in full, not in
    proportion: it fits into what is released, at the worth that was told last."""
    spent = ledger.spent(now)  # first: what has begun is pledged no longer
    pledged = ledger.pledged
    if not held or not pledged:
        return held
    if not covers(worth - (spent - ledger.starting), pledged):  # it was worth more before
        return 0
    return max(0, held - math.ceil(pledged / worth * held))
