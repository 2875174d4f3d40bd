"""Several budgets as one: laws C1, C3 and C4 where capacity is reserved, permitted and shared."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.permit import PermitBudget
from limiters._budgets.purse import Parts, Purse
from limiters._budgets.release import releasable
from limiters._budgets.spend import Tenure
from limiters._budgets.window import WindowLedger
from limiters._support.float_error import covers
from tests.examples import examples
from tests.interrupting import each_point

ALWAYS = Tenure(math.inf)


def purse_of(reserved: float, shared: float) -> Purse:
    return Purse(WindowLedger(reserved, 1.0), PermitBudget(), WindowLedger(shared, 1.0))


def spend(purse: Purse, cost: float, now: float) -> Parts | None:
    """Charges `cost` if it is there; which budget paid how much."""
    there = purse.available(now, cost)
    if not covers(sum(there), cost):
        return None
    parts = there.up_to(cost).paying(cost)
    purse.hold(parts)
    purse.charge(parts, now, ALWAYS).started(now)
    return parts


@settings(max_examples=examples(50))
@given(
    st.integers(0, 100),
    st.integers(1, 1_000),
    st.lists(st.tuples(st.floats(0, 0.3), st.floats(0.01, 1.0)), max_size=30),
)
def test_c1_neither_budget_is_ever_over(
    reserved: int, shared: int, wanted: list[tuple[float, float]]
) -> None:
    purse = purse_of(reserved, shared)
    spent: list[tuple[float, Parts]] = []
    now = 0.0
    for pause, share in wanted:
        now += pause
        parts = spend(purse, share * purse.capacity(now), now)
        if parts is not None:
            spent.append((now, parts))
    for end, _ in spent:
        window = [its for at, its in spent if end - 1.0 < at <= end]
        assert math.fsum(one.reserved for one in window) <= reserved * (1 + 1e-6)
        assert math.fsum(one.shared for one in window) <= shared * (1 + 1e-6)


@settings(max_examples=examples(50))
@given(
    st.integers(0, 1_000),
    st.integers(1, 1_000),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.5),
)
def test_c4_ready_at_is_about_when_it_is_there(
    reserved: int, shared: int, first: float, second: float, share: float, pause: float
) -> None:
    purse = purse_of(reserved, shared)
    for budget, capacity, part in (
        (purse.reserved, reserved, first),
        (purse.shared, shared, second),
    ):
        if capacity and part:
            budget.hold(part * capacity)
            budget.charge(part * capacity, 0.0).started(0.0)
    cost = share * purse.capacity(pause)
    steps = (pause + number / 200 for number in range(2_000))
    there = next(at for at in steps if sum(purse.available(at, cost)) >= cost * (1 - 1e-9))
    ready = purse.ready_at(cost, pause)
    assert pause <= ready <= there + 0.001
    assert covers(sum(purse.available(ready + 0.001, cost)), cost)


def test_c4_the_shared_part_is_not_held_up_by_a_reserved_one_that_is_there_already() -> None:
    purse = purse_of(100, 1_000)
    spend_of_shared = purse.shared
    spend_of_shared.hold(300)
    spend_of_shared.charge(300, 0.0).started(0.0)
    ready = purse.ready_at(500, 0.0)
    assert ready == pytest.approx(0.4, abs=0.01)
    assert sum(purse.available(ready, 500)) == pytest.approx(500)


def test_c4_nor_a_reserved_one_by_a_shared_one() -> None:
    purse = purse_of(100, 1_000)
    purse.reserved.hold(10)
    purse.reserved.charge(10, -0.9).started(-0.9)
    purse.reserved.hold(90)
    purse.reserved.charge(90, 0.0).started(-0.95)
    ready = purse.ready_at(1_050, 0.0)
    assert sum(purse.available(ready, 1_050)) >= 1_050 * (1 - 1e-9)
    assert ready < 0.6


def test_c3_a_spend_of_both_starts_ends_and_lapses_as_one() -> None:
    purse = purse_of(100, 100)
    purse.hold(Parts(200, 0, 200))
    both = purse.charge(Parts(100, 0, 100), 0.0, ALWAYS)
    assert both.started(0.5)
    assert purse.reserved.spent(1.0) == purse.shared.spent(1.0) == 100
    assert purse.reserved.spent(1.6) == purse.shared.spent(1.6) == 0
    lapsed = purse.charge(Parts(100, 0, 100), 2.0, Tenure(2.1))
    assert not lapsed.started(2.2)
    cancelled = purse.charge(Parts(), 2.0, ALWAYS)
    cancelled.cancel()
    assert purse.reserved.spent(2.2) == purse.shared.spent(2.2) == 0
    purse.release(Parts())


def test_c3_what_is_reserved_is_there_though_nothing_is_shared() -> None:
    purse = purse_of(100, 0)
    assert purse.available(0.0, 100) == (100, 0, 0)
    assert purse.ready_at(100, 0.0) == 0
    assert purse_of(0, 0).ready_at(1, 5.0) == 6.0
    assert purse_of(0, 0).ready_at(0, 5.0) == 5.0
    with_crumbs = purse_of(1, 0)
    with_crumbs.hold(Parts(0.3))
    assert with_crumbs.charge(Parts(0.3, 0.0, 5e-17), 0.0, ALWAYS).started(0.0)


def test_what_is_charged_to_both_has_begun_when_its_parts_have() -> None:
    purse = purse_of(10, 100)
    purse.hold(Parts(10, 0, 5))
    spend = purse.charge(Parts(10, 0, 5), 1.0, ALWAYS)
    assert spend.started_at is None
    assert spend.started(1.5)
    assert spend.started_at == 1.5


def with_permit(reserved: float, permit: float, shared: float, until: float = 5.0) -> Purse:
    purse = purse_of(reserved, shared)
    purse.permit.open(1, permit, until)
    return purse


def test_c4_a_permit_pays_after_what_is_reserved_and_before_a_share() -> None:
    purse = with_permit(100, 50, 1_000)
    assert spend(purse, 120, 0.0) == (100, 20, 0)
    assert purse.permit.available(0.0) == 30
    assert spend(purse, 130, 0.0) == (0, 30, 100)


@pytest.mark.parametrize("reserved", [0, 100])
def test_c4_a_permit_is_there_immediately_whatever_the_pace_of_the_others(reserved: float) -> None:
    purse = with_permit(reserved, 900, 0)
    assert purse.ready_at(900, 0.0) == 0.0
    assert sum(purse.available(0.0, 900 + reserved)) == 900 + reserved
    assert purse.capacity(0.0) == 900 + reserved


def test_c2_a_batch_that_a_permit_pays_for_in_part_starts_only_while_it_is_valid() -> None:
    purse = with_permit(100, 50, 0, until=1.0)
    purse.hold(Parts(100, 50, 0))
    both = purse.charge(Parts(100, 50, 0), 0.5, ALWAYS)
    assert not both.started(1.0)
    assert purse.reserved.spent(1.0) == 0
    assert purse.permit.close(1.0) == (1, ())


def test_c3_what_is_spent_in_one_step_is_paid_in_the_same_order() -> None:
    purse = with_permit(100, 50, 0)
    purse.payment(130, 0.5).enter()
    assert purse.reserved.spent(0.5) == 100
    assert purse.permit.close(0.5) == (1, ((0, 30.0),))


def test_c3_a_permit_that_was_set_aside_goes_back() -> None:
    purse = with_permit(10, 50, 0)
    purse.hold(Parts(10, 50, 0))
    assert sum(purse.available(0.5, 10)) == 0
    purse.release(Parts(10, 50, 0))
    assert purse.permit.available(0.5) == 50


def shared_purse(reserved: float, shared: float) -> Purse:
    return Purse(
        WindowLedger(reserved, 1.0, burst=1.0, reserved=True),
        PermitBudget(),
        WindowLedger(shared, 1.0, burst=1.0, shared=True),
    )


def reserved_call(purse: Purse, cost: float, actual: float) -> None:
    """Made and ended at 0, paid by reserved capacity."""
    payment = purse.payment(cost, 0.0)
    payment.enter()
    payment.spend.settle(actual)
    payment.spend.ended(0.0)


def passed_on(purse: Purse) -> list[float]:
    """The excess that the next request passes on to all holders."""
    assert isinstance(purse.shared, WindowLedger)
    return [cost for _, cost in purse.shared.debts.elsewhere.values()]


def test_z2_an_excess_of_reserved_capacity_counts_there_as_far_as_there_is_room() -> None:
    purse = shared_purse(10, 100)
    reserved_call(purse, 4, 9)
    assert purse.available(0.0, 110).amount == pytest.approx(101)


def test_z2_and_then_in_the_share_of_its_process() -> None:
    purse = shared_purse(10, 100)
    reserved_call(purse, 10, 60)
    assert purse.available(0.0, 110) == Parts(0, 0, 50)
    assert passed_on(purse) == []
    assert purse.available(1.1, 110) == Parts(10, 0, 100)


def test_z2_and_with_all_holders_if_it_holds_no_share() -> None:
    purse = shared_purse(10, 0)
    reserved_call(purse, 10, 60)
    assert purse.available(0.0, 110).amount == 0
    assert passed_on(purse) == [50]


def test_z2_a_share_that_is_overdrawn_by_it_is_not_released() -> None:
    purse = shared_purse(10, 30)
    reserved_call(purse, 10, 60)
    assert purse.available(0.0, 110).amount == 0
    assert isinstance(purse.shared, WindowLedger)
    assert releasable(purse.shared, 3, 3, 30, 0.0) == 0
    assert releasable(purse.shared, 3, 3, 30, 1.1) == 3


@pytest.mark.parametrize("share", [0, 30, 100])
def test_z3_an_interrupted_look_passes_an_excess_on_once(share: float) -> None:
    made: list[Purse] = []

    def prepare() -> Callable[[], object]:
        purse = shared_purse(10, share)
        reserved_call(purse, 10, 60)
        made.append(purse)
        return lambda: purse.available(0.0)

    for where in each_point(prepare):
        purse = made[-1]
        purse.available(0.0)
        shared = purse.shared.spent(0.0) + math.fsum(passed_on(purse))
        assert purse.reserved.spent(0.0) + shared == 60, where
