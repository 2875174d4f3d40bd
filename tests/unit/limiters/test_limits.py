"""Limits of several dimensions, and costs in them: what is accepted, and what is refused."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters._costs import Costs, checked_cost, is_covered
from limiters._support.validation import ArgumentError
from limiters.limits import BoundKind, InFlight, Limits, Rate, seconds

COSTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**6)).map(Costs)


@given(COSTS, COSTS, COSTS)
def test_costs_add_up_in_any_order(one: Costs, two: Costs, three: Costs) -> None:
    assert sum([one, two, three]) == sum([three, one, two]) == one + (two + three)
    assert one + two - two == one
    assert all(amount for amount in (one + two).values())


@given(COSTS, COSTS)
def test_what_covers_a_cost_covers_it_in_each_dimension(there: Costs, cost: Costs) -> None:
    enough = all(there.amount(name) >= cost.amount(name) for name in "abc")
    assert is_covered(there, cost) is enough
    assert is_covered(there + cost, cost)


def test_costs_can_be_sent_and_compared() -> None:
    cost = Costs({"tokens": 5, "requests": 0})
    assert pickle.loads(pickle.dumps(cost)) == cost == {"tokens": 5}
    assert Costs() == 0
    assert not Costs()
    assert hash(cost) == hash(Costs({"tokens": 5}))


def test_a_number_is_not_added_to_costs() -> None:
    with pytest.raises(TypeError, match="5 does not say of which dimension"):
        Costs({"tokens": 5}) + 5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"tokens": -1}, r"cost\['tokens'\] must be zero or more, not -1"),
        ({"tokens": float("nan")}, r"cost\['tokens'\] must be finite"),
        ({"tokens": "5"}, r"cost\['tokens'\] must be a number"),
        ({5: 1}, "cost must have texts that are not empty as dimensions"),
        ({"": 1}, "cost must have texts that are not empty as dimensions"),
        (float("inf"), "cost must be finite"),
    ],
)
def test_bad_costs_are_refused(value: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        checked_cost("cost", value)


def test_v1_each_window_of_a_rate_is_a_bound_of_its_own() -> None:
    rate = Rate(600, per=60, also=[Rate(10, per=1), Rate(100, per=15)])
    outer, middle, inner = rate.bounds("requests")
    assert [(one.capacity, one.period) for one in (outer, middle, inner)] == [
        (600, 60),
        (100, 15),
        (10, 1),
    ]
    limits = Limits(requests=rate, tokens=Rate(90_000, per=60))
    assert limits.by_bound(Costs({"requests": 1, "tokens": 812})) == (1, 1, 1, 812)
    assert limits.most == {"requests": 10, "tokens": 90_000}


@pytest.mark.parametrize(
    ("rate", "burst"),
    [
        (Rate(20_000), 2_000),
        (Rate(600, per=60), 10),
        (Rate(600, per=60, also=[Rate(10, per=1)]), 1),
        (Rate(600, per=60, burst=50), 50),
        (Rate(600, per=60, burst=seconds(2)), 20),
        (Rate(600, per=60, burst=10**9), 600),
    ],
)
def test_v8_a_burst_is_a_tenth_of_the_shortest_window_and_a_second_at_most(
    rate: Rate, burst: float
) -> None:
    assert rate.bounds("")[0].burst == pytest.approx(burst)
    assert all(bound.burst <= bound.capacity for bound in rate.bounds(""))


def test_a_number_means_the_only_dimension() -> None:
    assert Limits.of(5, 2).dimensions == ("",)
    assert Limits.of(5).normal("cost", 3) == 3
    only = Limits(tokens=Rate(90_000, per=60))
    assert only.normal("cost", 3) == 3 == only.normal("cost", Costs({"tokens": 3}))


@pytest.mark.parametrize(
    ("limits", "cost", "message"),
    [
        (Limits.of(5), Costs({"tokens": 3}), "cost must be a number: the limit has one dimension"),
        (Limits(a=Rate(5), b=Rate(5)), 3, "cost must say of which dimension it is, not 3; as in"),
        (Limits(a=Rate(5), b=Rate(5)), Costs({"c": 3}), "cost must be of a and b alone"),
        (Limits(a=Rate(5)), Costs({"c": 3}), "cost must be of a alone"),
    ],
)
def test_a_cost_of_another_dimension_is_refused(
    limits: Limits, cost: float | Costs, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        limits.normal("cost", cost)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(), "Limits must have a dimension"),
        (
            lambda: Limits(a=5),  # type: ignore[arg-type]
            "a must be a Rate or InFlight, not 5; as in Rate\\(5\\)",
        ),
        (lambda: Rate(0), "capacity must be more than zero"),
        (lambda: Rate(5, per=0), "per must be more than zero seconds"),
        (
            lambda: Rate(600, per=60, also=[10]),  # type: ignore[list-item]
            "also must hold a Rate for each further window",
        ),
        (lambda: Rate(600, per=60, also=[Rate(10, per=60)]), "a window shorter than per=60"),
        (
            lambda: Rate(600, per=60, also=[Rate(600, per=1)]),
            "have less capacity than the 600 of 60 s",
        ),
        (lambda: Rate(600, per=60, also=[Rate(9, counts="end")]), "a capacity and per alone"),
        (lambda: Rate(5, counts="middle"), "counts must be 'start' or 'end'"),  # type: ignore[arg-type]
        (lambda: Rate(5, burst=-1), "burst must be more than zero"),
        (lambda: InFlight(1.5), "n must be a whole number"),  # type: ignore[arg-type]
        (lambda: InFlight(0), "n must be at least 1"),
        (lambda: Limits(**{f"d{i}": Rate(5) for i in range(17)}), "at most 16 windows"),
    ],
)
def test_limits_without_meaning_are_refused(make: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()  # type: ignore[operator]


def test_n1_slots_last_as_long_as_a_call() -> None:
    (bound,) = InFlight(20, max_operation_time=30).bounds("calls")
    assert bound.kind is BoundKind.SLOTS
    assert bound.lasting(shared=False) == pytest.approx(30.006)
