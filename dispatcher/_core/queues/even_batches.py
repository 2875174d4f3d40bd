"""How large batches are where a limit makes them wait, so that whole batches use all of it. Pure.

What is spent comes free again a period later, in the same pieces. If full batches do not divide
the limit, the remainder is never enough for one more: it would lie idle for as long as there is a
backlog. Batches that are a little smaller leave nothing over.
"""

from __future__ import annotations

import math

from limiters._support.float_error import FLOAT_ERROR

WORTH_IT = 0.005
"""The share of a limit that may lie idle before batches are made smaller for it."""


def even(full: float, cost: float, limit: float) -> float:
    """How many operations make a batch: at most `full`, which cost `cost`, of a `limit`.

    >>> even(200, cost=2_000, limit=20_000), even(200, cost=2_000, limit=21_000)
    (200, 190)
    >>> even(200, cost=1e-310, limit=20_000)
    200
    """
    if math.isinf(full) or math.isinf(limit):
        return full
    fitting = limit * (1 + FLOAT_ERROR) / cost * full
    if not full <= fitting < full / WORTH_IT:  # what is left over is less than a batch
        return full
    most = int(fitting)
    idle = most % int(full)
    if idle <= most * WORTH_IT:
        return full
    smaller = most // math.ceil(most / full)
    return smaller if most % smaller < idle else full
