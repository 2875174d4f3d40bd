"""The last report of a limiter arrives, even if a reply is lost or the instance was evicted
before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from limiters import LeaseManagerError, MemoryLeaseManager, SharedResource
from limiters._resource.reservation import Receipt
from limiters.leases._messages import Reply, Request
from limiters.leases._totals import COUNTERS
from tests.waiting import until


class Deaf(MemoryLeaseManager):
    """Does not answer some requests to leave, or has forgotten the instance."""

    def __init__(self, *, unanswered: int = 0, unknown: int = 0) -> None:
        super().__init__()
        self._unanswered, self._unknown = unanswered, unknown
        self.left = 0

    def sync(self, request: Request) -> Reply:
        if not request.leaving:
            return super().sync(request)
        self.left += 1
        if self._unanswered:
            self._unanswered -= 1
            raise LeaseManagerError("it does not answer")
        if self._unknown:
            self._unknown -= 1
            return replace(super().sync(replace(request, totals=())), counted=False)
        return super().sync(request)


def spent(manager: Deaf) -> float:
    seen = manager.look()
    assert seen is not None
    return dict(zip(COUNTERS, seen.totals, strict=False))["spent_shared"]


@pytest.mark.parametrize("trouble", [{"unanswered": 2}, {"unknown": 1}, {}])
def test_m2_the_last_totals_are_counted_once(trouble: dict[str, int]) -> None:
    manager = Deaf(**trouble)
    with SharedResource(shared_capacity=100, lease_manager=manager) as limiter:
        limiter.give_me(100)
        until(lambda: limiter.take(50, None, Receipt()))
    assert spent(manager) == 50
    assert manager.left <= 2 + sum(trouble.values()), "requests that fail at the end are repeated"


@pytest.mark.parametrize("trouble", [{"unanswered": 100}, {"unknown": 100}])
def test_m2_a_report_without_an_answer_is_given_up(trouble: dict[str, int]) -> None:
    manager = Deaf(**trouble)
    with SharedResource(shared_capacity=100, lease_manager=manager) as limiter:
        limiter.give_me(100)
        until(lambda: limiter.take(50, None, Receipt()))
    assert manager.left <= 3
