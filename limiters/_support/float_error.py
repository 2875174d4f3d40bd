"""The float error of sums of fractions, and the tolerance for it, which is the same everywhere.

A float keeps 16 digits, so that ten times 0.07 is a little more than 0.7. Without tolerance the
last part of an amount would never fit, and an operation that needs it would wait without end. The
tolerance is a share of the cost that is compared, so that costs of any size together exceed a limit
by no more than this share of it.
"""

from __future__ import annotations

FLOAT_ERROR = 1e-8
"""The share by which a cost may exceed the amount that is available for it."""

ALL_BUT_ERROR = 1 - FLOAT_ERROR


def covers(amount: float, cost: float) -> bool:
    """Whether `amount` is enough for `cost`.

    >>> covers(0.3, 0.1 + 0.2), covers(0.3, 0.30001), covers(0, 0)
    (True, False, True)
    """
    return amount >= cost * ALL_BUT_ERROR
