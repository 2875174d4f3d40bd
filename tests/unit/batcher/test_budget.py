"""The budget of one plan: which operations it pays for."""

from __future__ import annotations

import math

import pytest

from dispatcher import Operation, ProvisionedResource, Watcher
from dispatcher._core.queues.budget import Allowance, Budget, Unlimited
from limiters.testing import ManualClock


def operation(cost: float) -> Operation:
    return Operation(Watcher(lambda batch: None), cost, "")


def test_a_cost_that_fits_is_spent_and_one_that_does_not_fit_spends_nothing() -> None:
    budget = Allowance(10, burst=10)

    assert budget.take(operation(7))
    assert not budget.take(operation(4))
    assert budget.left == 3
    assert budget.take(operation(3))


def test_fractions_that_add_up_to_the_whole_budget_fit() -> None:
    budget = Allowance(0.3, burst=1)

    assert [budget.take(operation(0.1)) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("cost", [0, 1e30])
def test_without_a_limit_everything_fits(cost: float) -> None:
    budget: Budget = Unlimited()

    assert budget.take(operation(cost))


@pytest.mark.parametrize(("ready", "limit"), [(100, math.inf), (2_000, 1_000)])
def test_batches_are_made_even_only_if_a_grant_is_too_small(ready: float, limit: float) -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(1_000, clock=clock)
    with limiter:
        clock.advance(10)
        grant = limiter.grant(ready)
        budget = Allowance.of(grant, limiter, ready)

        assert (budget.left, budget.burst, budget.limit) == (grant.amount, limiter.burst, limit)
        grant.close()
