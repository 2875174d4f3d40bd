"""When what was charged began, as the library counts it.

A note that a callback makes itself is late by as long as its thread, or its process, was switched
out on the way there. On a busy machine that may be any time, and a law about windows seems broken.
"""

from __future__ import annotations

from typing import Any

from dispatcher.batch import CURRENT, Batch
from limiters import SharedResource
from limiters.limiter import Grant
from limiters.verifier import Spent
from limiters.window import Spend


def began() -> float:
    """When the batch began whose callback calls this, by the ledger of its limiter."""
    batch = CURRENT.get()
    assert isinstance(batch, Batch), "no callback of a Batcher calls this"
    assert batch.spend is not None, "it costs nothing, or has no limiter"
    assert batch.spend.started_at is not None
    return batch.spend.started_at


class Charging(SharedResource):
    """A SharedResource that keeps what it charges, for those who acquire without a Batcher."""

    def __init__(self, **settings: Any) -> None:
        self._spends: list[Spend] = []
        super().__init__(**settings)

    @property
    def log(self) -> list[Spent]:
        """What has begun."""
        return [
            Spent(one.started_at, "all", one.cost)
            for one in self._spends
            if one.started_at is not None
        ]

    def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> Any:
        """A grant whose charges are kept."""
        return _KeptGrant(super().grant(up_to, at_least, claimant), self._spends)


class _KeptGrant:
    def __init__(self, grant: Grant, spends: list[Spend]) -> None:
        self.amount = grant.amount
        self.close = grant.close
        self._grant = grant
        self._spends = spends

    def spend(self, cost: float) -> Spend:
        spend = self._grant.spend(cost)
        self._spends.append(spend)
        return spend
