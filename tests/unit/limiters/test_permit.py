"""A permit in the hands of its holder: laws C2 and C3."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters._budgets.permit import PermitBudget
from limiters._budgets.spending import Spending


def charge(budget: PermitBudget, cost: float, now: float) -> bool:
    budget.hold(cost)
    return budget.charge(cost, now).started(now)


def test_it_has_nothing_to_give_before_one_is_granted() -> None:
    budget = PermitBudget()
    assert budget.available(0.0) == 0
    assert not budget.is_open(0.0)
    assert budget.close(0.0) == (0, ())


def test_c2_nothing_starts_once_it_has_ended() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.hold(10.0)
    spend = budget.charge(10.0, 4.9)
    assert not spend.started(5.0)
    assert budget.available(5.0) == 0
    assert not budget.is_open(5.0)
    assert budget.close(5.0) == (7, ()), "an unused one is refunded"


def test_c2_what_was_charged_to_one_that_was_reported_since_never_starts() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.hold(10.0)
    budget.close(4.0)
    assert not budget.charge(10.0, 4.1).started(4.1)
    budget.open(8, 10.0, until=6.0)
    budget.hold(4.0)
    assert budget.available(4.5) == 6.0
    assert charge(budget, 6.0, 4.5)


def test_c2_what_has_not_started_when_it_is_reported_may_still_start() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.hold(10.0)
    early, late = budget.charge(4.0, 4.0), budget.charge(5.0, 4.0)
    assert early.started(4.5)
    assert budget.close(4.75) == (7, ((250, 4.0), (-1, 5.0)))
    assert late.started(4.9), "its cost was reported as if it started at the last moment"
    assert budget.close(4.9) == (0, ()), "reported once"


def test_c3_what_is_set_aside_and_not_charged_goes_back() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.hold(8.0)
    assert budget.available(1.0) == 2.0
    budget.release(8.0)
    assert budget.available(1.0) == 10.0
    budget.hold(10.0)
    budget.charge(10.0, 1.0).cancel()
    assert budget.close(2.0) == (7, ())


def test_c3_the_error_of_a_sum_leaves_nothing_over() -> None:
    budget = PermitBudget()
    budget.open(7, sum([0.07] * 10), until=5.0)
    assert charge(budget, 0.7, 1.0)
    assert budget.available(1.0) == 0
    assert not budget.is_open(1.0)


def test_it_is_open_while_something_of_it_may_start() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.hold(10.0)
    spend = budget.charge(10.0, 1.0)
    assert budget.is_open(2.0)
    assert spend.started(2.0)
    assert not budget.is_open(2.0)


def test_one_step_counts_what_is_spent_without_setting_it_aside() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.payment(4.0, 1.0).enter()
    assert budget.available(1.0) == 6.0
    assert budget.close(3.0) == (7, ((2_000, 4.0),))
    assert budget.spending() == Spending(4.0)
    assert budget.recent(3.0, seconds=3.0) == [4.0]
    assert budget.recent(4.5, seconds=3.0) == []


@given(
    st.floats(0.1, 100),
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=20),
)
def test_c1_never_more_starts_than_the_permit_is_for_and_all_of_it_is_reported(
    cost: float, asked: list[tuple[float, bool]]
) -> None:
    budget = PermitBudget()
    budget.open(1, cost, until=10.0)
    started = []
    for share, starts in asked:
        part = min(share * cost, budget.available(1.0))
        budget.hold(part)
        spend = budget.charge(part, 1.0)
        if starts and spend.started(1.0):
            started.append(part)
    assert math.fsum(started) <= cost * (1 + 1e-6)
    _, used = budget.close(1.0)
    assert math.fsum(c for age, c in used if age >= 0) == pytest.approx(math.fsum(started))
    assert math.fsum(c for _, c in used) <= cost * (1 + 1e-6)


@pytest.mark.parametrize("at_end", [False, True])
def test_sums_of_spending_have_what_calls_cost_less_or_more_also_after_the_report(
    at_end: bool,
) -> None:
    budget = PermitBudget(at_end=at_end)
    budget.open(7, 60.0, until=5.0)
    low, high = budget.charge(30.0, 4.0), budget.charge(20.0, 4.0)
    assert budget.spending() == Spending(), "neither has begun"
    for call, actual in ((low, 10.0), (high, 25.0)):
        assert call.started(4.0)
        assert call.settle(actual)
    assert budget.spending() == Spending(50), "they run"
    low.ended(4.5)
    assert budget.spending() == Spending(50, refunded=20)
    budget.close(4.6)
    assert budget.spending() == Spending(50, refunded=20)
    high.ended(4.7)
    assert budget.spending() == Spending(50, refunded=20, excess=5)


def test_v2_what_is_withdrawn_can_be_used_again_as_long_as_the_permit_is_open() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    payment = budget.payment(6.0, 4.0)
    payment.enter()
    assert budget.available(4.0) == 4.0
    payment.withdraw(4.0)
    assert budget.available(4.0) == 10.0
    assert budget.close(4.5) == (7, ())


def test_v2_what_is_withdrawn_after_its_report_costs_nothing() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    payment = budget.payment(6.0, 4.0)
    payment.enter()
    assert budget.close(4.5) == (7, ((500, 6.0),))
    payment.withdraw(4.6)
    assert budget.uses[0].entry.counts == 0, "so the next request refunds it"
    assert budget.spending() == Spending(estimated=6.0, refunded=6.0)


def test_v2_what_is_withdrawn_before_it_was_entered_is_in_no_sum() -> None:
    budget = PermitBudget()
    budget.open(7, 10.0, until=5.0)
    budget.payment(6.0, 4.0).withdraw(4.0)
    assert budget.available(4.0) == 10.0
    assert budget.spending() == Spending()
