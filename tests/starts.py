"""When what was charged began, as the library counts it.

A note that a callback makes itself is late by as long as its thread, or its process, was switched
out on the way there. On a busy machine that may be any time, and a law about windows seems broken.
"""

from __future__ import annotations

from typing import Any

from dispatcher._core.queues.batch import CURRENT, OperationBatch
from limiters import SharedResource
from limiters._budgets.purse import Purse
from limiters._budgets.spend import Payment
from limiters.leases._messages import Terms
from limiters.verifier import Spent


def began() -> float:
    """When the batch began whose callback calls this, by the ledger of its limiter."""
    batch = CURRENT.get()
    assert isinstance(batch, OperationBatch), "no callback of a Batcher calls this"
    assert batch.spend is not None, "it costs nothing, or has no limiter"
    assert batch.spend.started_at is not None
    return batch.spend.started_at


class Charging(SharedResource):
    """A SharedResource that keeps what it charges to those who acquire without a Batcher."""

    def __init__(self, **settings: Any) -> None:
        self.log: list[Spent] = []
        """The starts of callbacks so far."""
        super().__init__(**settings)

    def _begin_share(self, terms: Terms) -> None:
        super()._begin_share(terms)
        purse = self._budget.purse
        assert isinstance(purse, Purse), "a limit of one dimension is meant"
        self._budget.purse = _NotedPurse(purse, self.log)


class _NotedPurse(Purse):
    def __init__(self, purse: Purse, log: list[Spent]) -> None:
        super().__init__(purse.reserved, purse.permit, purse.shared)
        self._log = log

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        self._log.append(Spent(now, "all", cost))
        return super().payment(cost, now, owner)
