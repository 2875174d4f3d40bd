"""How many messages a worker leases, and what it tells the limiter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.worker._room import AHEAD, FEW, View, claim, to_lease
from limiters._costs import Costs

views = st.builds(
    View,
    slots=st.integers(0, 20),
    running=st.integers(0, 20),
    batch_size=st.integers(1, 500),
    waiting=st.integers(0, 10_000),
    batch_time=st.none() | st.floats(0, 100),
    capacity=st.none() | st.just(0.0) | st.floats(0.001, 1e6),
    speed=st.sampled_from([0.01, 1.0, 1e6]),
    mean_cost=st.none() | st.floats(0, 1e4),
    due=st.integers(0, 20_000),
)


@given(views)
def test_no_more_than_slots_and_budget_can_use_soon(view: View) -> None:
    number = to_lease(view)
    assert 0 <= number <= view.batch_size
    if number:
        together = number + view.waiting
        assert together <= view.slots * view.batch_size
        if view.capacity is not None and view.mean_cost:
            soon = min(view.capacity, view.speed * AHEAD)
            most = max(1, soon / view.mean_cost) if view.capacity else FEW
            assert together <= most


@given(views)
def test_c5_it_claims_only_what_is_due_and_free_slots_could_use(view: View) -> None:
    cost = claim(view)
    assert cost >= 0
    if view.capacity is None or not view.slots:
        assert cost == 0
    usable = min(view.due, view.slots * view.batch_size)
    assert cost <= usable * (view.mean_cost or 0)


@pytest.mark.parametrize(("due", "claimed"), [(0, 0), (7, 7), (120, 120), (5_000, 120)])
def test_c5_the_claim_is_all_that_is_due_and_free_slots_could_use(due: int, claimed: int) -> None:
    view = View(*(4, 1, 50, 30), capacity=10, mean_cost=2.0, due=due)
    assert claim(view) == claimed * 2


def test_an_idle_worker_takes_a_batch() -> None:
    assert to_lease(View(slots=4, running=0, batch_size=50, waiting=0)) == 50


def test_one_is_leased_even_if_its_cost_takes_long_to_gather() -> None:
    view = View(slots=4, running=0, batch_size=50, waiting=0, capacity=2, mean_cost=100)
    assert to_lease(view) == 1


def test_a_few_while_the_cost_is_not_known() -> None:
    view = View(slots=4, running=0, batch_size=50, waiting=0, capacity=1e6, mean_cost=None)
    assert to_lease(view) == FEW


def test_a_few_while_there_is_nothing_to_spend() -> None:
    assert to_lease(View(slots=4, running=0, batch_size=50, waiting=0, capacity=0.0)) == FEW


@pytest.mark.parametrize(("batch_time", "expected"), [(None, 0), (60.0, 0), (1.0, 50), (0.01, 50)])
def test_busy_slots_count_as_far_as_they_will_be_free_soon(
    batch_time: float | None, expected: int
) -> None:
    view = View(slots=2, running=2, batch_size=50, waiting=0, batch_time=batch_time)
    assert to_lease(view) == expected


def test_nothing_while_all_slots_hang_or_it_pauses() -> None:
    assert to_lease(View(slots=0, running=0, batch_size=50, waiting=0)) == 0


def test_of_several_dimensions_the_one_that_pays_for_the_fewest_counts() -> None:
    view = View(
        *(4, 0, 50, 0),
        capacity=Costs({"requests": 100, "tokens": 1_000, "calls": 20}),
        speed=Costs({"requests": 100, "tokens": 1_000}),
        mean_cost=Costs({"tokens": 50, "calls": 1}),
        batch_cost=Costs({"requests": 1}),
        due=120,
    )
    assert to_lease(view) == 1_000 * AHEAD / 50
    assert claim(view) == {"requests": 3, "tokens": 6_000, "calls": 120}
    assert to_lease(replace(view, mean_cost=Costs())) == 50
    assert to_lease(replace(view, capacity=Costs())) == FEW
