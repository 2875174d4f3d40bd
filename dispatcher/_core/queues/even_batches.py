"""Sizes of batches that wait for a limit, so that whole batches use all of it. Pure.

Spent capacity is free again one period later, in the same pieces. If full batches do not divide the
limit, the remainder is never enough for one more: it stays unused for as long as there is a
backlog. Batches that are a little smaller leave no remainder.
"""

from __future__ import annotations

import math

from limiters._support.float_error import FLOAT_ERROR

WORTH_IT = 0.005
"""The share of a limit that may stay unused before batches are made smaller for it."""


def even(full: float, cost: float, limit: float, batch_cost: float = 0) -> float:
    """Return how many operations make a batch: at most `full`, which cost `cost`, in a `limit` of
    which each batch takes `batch_cost` in addition.

    >>> even(200, cost=2_000, limit=20_000), even(200, cost=2_000, limit=21_000)
    (200, 190)
    >>> even(200, cost=1e-310, limit=20_000)
    200
    >>> even(200, cost=2_000, limit=21_000, batch_cost=100), even(200, 2_000, 20_000, 500)
    (200, 200)
    >>> even(200, cost=2_000, limit=23_000, batch_cost=10)
    190
    """
    if math.isinf(full) or math.isinf(limit):
        return full
    whole = limit * (1 + FLOAT_ERROR) / (cost + batch_cost)
    if not 1 <= whole < 1 / WORTH_IT:  # what is left over is less than a batch
        return full
    if batch_cost:
        return _even_with_batch_cost(full, cost, limit * (1 + FLOAT_ERROR), batch_cost, int(whole))
    most = int(whole * full)
    idle = most % int(full)
    if idle <= most * WORTH_IT:
        return full
    smaller = most // math.ceil(most / full)
    return smaller if most % smaller < idle else full


def _even_with_batch_cost(
    full: float, cost: float, limit: float, batch_cost: float, batches: int
) -> float:
    """One more batch also pays its own cost: use smaller batches if they let more operations
    through."""
    left = limit - (batches + 1) * batch_cost
    smaller = int(min(full, left * full / cost // (batches + 1)))
    gained = smaller * (batches + 1) - full * batches
    return smaller if gained > full * batches * WORTH_IT else full
