"""How much of a share may be released: the rest has to cover what may start at any moment. Pure.

What is released takes its part of the past along, and a coordinator believes of that no more than
fits into what is released. So nothing is released while all that is held is worth less than was
spent, because calls have cost more than estimated.
"""

from __future__ import annotations

import math

from limiters._budgets.window import WindowLedger
from limiters._support.float_error import covers


def releasable(ledger: WindowLedger, units: int, held: int, worth: float, now: float) -> int:
    """As much of `units` as can go, where all that is `held` is worth that much."""
    spent = ledger.spent(now)  # first: what has begun is pledged no longer
    if is_overdrawn(ledger, worth, now):
        return 0
    pledged = ledger.pledged
    if not units or not pledged:
        return units
    free = worth - (spent - ledger.starting)
    if free <= pledged:
        return 0
    return min(units, math.floor(held * (1 - pledged / free)))


def last_release(ledger: WindowLedger, held: int, worth: float, now: float) -> int:
    """All but what may start at any moment costs. What was spent goes along in full, not in
    proportion: it fits into what is released, at its last known worth."""
    spent = ledger.spent(now)  # first: what has begun is pledged no longer
    if is_overdrawn(ledger, worth, now):
        return 0
    pledged = ledger.pledged
    if not held or not pledged:
        return held
    if not covers(worth - (spent - ledger.starting), pledged):  # it was worth more before
        return 0
    return max(0, held - math.ceil(pledged / worth * held))


def is_overdrawn(ledger: WindowLedger, worth: float, now: float) -> bool:
    """Whether calls have cost so much more than estimated that it is over what is held."""
    return now < ledger.debts.until and not covers(worth, ledger.spent(now))
