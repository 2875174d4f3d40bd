"""The ledger alone: law C1 (any window), C3 (fractions), C4 (expensive amounts), by pure time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters._budgets.spend import Spend, Tenure
from limiters._budgets.window import WindowLedger
from limiters._guard import GUARD
from limiters.limits import BURST
from tests.interrupting import each_call_in


def charge(ledger: WindowLedger, cost: float, now: float) -> Spend:
    ledger.hold(cost)
    return ledger.charge(cost, now)


def worst_window(spent: list[tuple[float, float]], period: float) -> float:
    """The most that was spent in any window (t - period, t], by definition."""
    return max(
        (math.fsum(c for s, c in spent if t - period < s <= t) for t, _ in spent), default=0.0
    )


def spend_greedily(
    ledger: WindowLedger, costs: list[float], delays: list[float], until: float
) -> list[tuple[float, float]]:
    """Charges each cost as soon as it fits; each start comes its delay after its charge."""
    now = 0.0
    spent: list[tuple[float, float]] = []
    for cost, delay in zip(costs, delays, strict=False):
        while ledger.available(now, at_least=cost) < cost * (1 - 1e-9):
            now = max(ledger.ready_at(cost, now), now + 1e-4)
            if now > until:
                return spent
        charge(ledger, cost, now).started(now + delay)
        spent.append((now + delay, cost))
    return spent


@given(
    capacity=st.integers(1, 1000),
    period=st.sampled_from([0.1, 1.0, 60.0]),
    shares=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=60),
    delays=st.lists(st.floats(0.0, 0.5), min_size=60, max_size=60),
)
def test_c1_no_window_is_over_whenever_callbacks_start(
    capacity: int, period: float, shares: list[float], delays: list[float]
) -> None:
    ledger = WindowLedger(capacity, period)
    costs = [share * capacity for share in shares]
    spent = spend_greedily(ledger, costs, delays, until=100 * period)
    assert worst_window(spent, period) <= capacity * (1 + 1e-6)


@given(st.lists(st.integers(1, 20), min_size=300, max_size=300))
def test_c1_integer_costs_never_exceed_by_even_one(costs: list[int]) -> None:
    ledger = WindowLedger(100, 1.0)
    spent = spend_greedily(ledger, [float(c) for c in costs], [0.0] * 300, until=100)
    assert worst_window(spent, 1.0) <= 100


def test_c1_what_has_not_started_keeps_counting() -> None:
    ledger = WindowLedger(10, 1.0)
    slow = charge(ledger, 10, now=0.0)
    assert ledger.available(100.0, at_least=10) == 0
    slow.started(100.0)
    assert ledger.available(100.5, at_least=10) == 0
    assert ledger.available(101.1, at_least=10) == 10


@pytest.mark.parametrize("begins", ["a call that waited", "a call that is charged just then"])
def test_c1_what_begins_while_the_ledger_looks_is_counted(begins: str) -> None:
    """A callback begins in a thread of its own, and a signal handler may charge a call."""

    def prepare() -> tuple[Callable[[], object], Callable[[], object]]:
        ledger = ledgers[0] = WindowLedger(capacity=20, period=60.0, burst=1.0)
        charge(ledger, 5, 0.0).started(0.0)
        waiting = charge(ledger, 5, 0.0)
        charge(ledger, 5, 0.0)

        def begin() -> None:
            if begins == "a call that waited":
                waiting.started(0.0)
            else:
                ledger.payment(5, 0.0).enter()

        return lambda: ledger.spent(0.1), begin

    ledgers: dict[int, WindowLedger] = {}
    expected = 15 if begins == "a call that waited" else 20
    for where in each_call_in(prepare):
        assert ledgers[0].spent(0.1) == expected, where


def test_c1_the_guard_covers_a_start_noted_a_little_early() -> None:
    ledger = WindowLedger(10, 1.0)
    charge(ledger, 10, now=0.0).started(0.0)
    assert ledger.available(1.0 + GUARD / 2, at_least=10) == 0


@pytest.mark.parametrize(
    ("capacity", "cost"),
    [
        (0.5, 0.5),
        (1, 1),
        (1, 0.1),
        (7, 1),
        (9.9, 0.3),
        pytest.param(1000, 1, marks=pytest.mark.long),
    ],
)
def test_c3_small_capacities_are_used_in_full(capacity: float, cost: float) -> None:
    ledger = WindowLedger(capacity, 1.0)
    spent = spend_greedily(ledger, [cost] * 100_000, [0.0] * 100_000, until=60.0)
    used = math.fsum(cost for _, cost in spent)
    assert 0.98 * capacity * 59 <= used <= capacity * 61


def test_c3_what_is_held_and_given_back_was_never_spent() -> None:
    ledger = WindowLedger(10, 1.0)
    ledger.hold(ledger.available(0.0))
    assert ledger.available(0.0) == 0
    ledger.release(1.0)
    assert ledger.available(0.0) == 1.0


def test_capacity_comes_evenly_and_not_in_one_piece() -> None:
    ledger = WindowLedger(1000, 1.0)
    assert ledger.available(50.0) == 1000 * BURST
    spent = spend_greedily(ledger, [10.0] * 1000, [0.0] * 1000, until=0.95)
    in_first_half = sum(cost for at, cost in spent if at < 0.5)
    assert 450 <= in_first_half <= 650


def test_c4_an_expensive_amount_gathers_beyond_a_burst() -> None:
    ledger = WindowLedger(1000, 1.0)
    charge(ledger, 100, now=0.0).started(0.0)
    assert ledger.available(0.3, at_least=800) == pytest.approx(300)
    ready = ledger.ready_at(800, now=0.3)
    assert ledger.available(ready, at_least=800) >= 800 * (1 - 1e-9)


@given(
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 100)), max_size=30),
    st.integers(1, 100),
)
def test_ready_at_is_neither_too_early_nor_too_late(
    history: list[tuple[float, int]], cost: int
) -> None:
    ledger = WindowLedger(100, 1.0)
    now = 0.0
    for pause, spent in history:
        now += pause
        if ledger.available(now, at_least=spent) >= spent:
            charge(ledger, spent, now).started(now)
    ready = ledger.ready_at(cost, now)
    if ready > now + 1e-6:
        assert ledger.available(ready - 1e-6, at_least=cost) < cost
    assert ledger.available(ready + 1e-9, at_least=cost) >= cost * (1 - 1e-6)


def test_the_ledger_stays_small_however_many_batches() -> None:
    ledger = WindowLedger(1_000_000, 1.0)
    for step in range(50_000):
        charge(ledger, 1, step / 50_000).started(step / 50_000)
    ledger.available(1.0)
    assert len(ledger._started.costs) <= 1100


def test_a_lowered_capacity_counts_what_was_spent_before() -> None:
    ledger = WindowLedger(100, 1.0)
    charge(ledger, 60, 0.0).started(0.0)
    ledger.set_capacity(50)
    assert ledger.available(0.5, at_least=50) == 0
    assert ledger.available(1.1, at_least=50) == 50


def test_v8_after_a_rest_no_more_than_a_burst_goes_at_one_time_however_cheap_calls_were() -> None:
    ledger = WindowLedger(capacity=1000, period=10.0, burst=0.01)
    now = 0.0
    for _ in range(400):
        now = ledger.ready_at(5, now + 0.2)
        call = charge(ledger, 5, now)
        call.started(now)
        call.settle(0)
        call.ended(now)
    assert ledger.available(now + 3600, at_least=5) == pytest.approx(10)


def test_a_cancelled_spend_counts_no_more() -> None:
    ledger = WindowLedger(10, 1.0)
    charge(ledger, 10, 0.0).cancel()
    assert ledger.available(1.0, at_least=10) == 10


# What changes hands.

entries = st.lists(st.tuples(st.floats(9.0, 10.0), st.floats(0.1, 50)), max_size=20)


def of(began: list[tuple[float, float]]) -> WindowLedger:
    """One's own spending and, of the same, what others have spent."""
    ledger = WindowLedger(10_000, 1.0)
    for number, (at, cost) in enumerate(sorted(began)):
        charge(ledger, cost, at).started(at)
        ledger.receive(number, cost, at + 1.0 + GUARD)
    return ledger


@given(entries, st.lists(st.floats(0, 1), max_size=5))
def test_c2_a_split_takes_the_same_fraction_of_all_that_counts_at_any_time(
    began: list[tuple[float, float]], parts: list[float]
) -> None:
    ledger, left = of(began), 1.0
    for part in parts:
        whole = ledger.spent(10.0)
        own, inherited = ledger.split(part, 10.0)
        taken = math.fsum(cost for _, cost in own) + math.fsum(cost for _, cost in inherited)
        assert taken == pytest.approx(part * whole)
        assert all(at >= 9.0 for at, _ in own), "none becomes older"
        left *= 1 - part
    for now in (10.0, 10.2, 10.7, 10.999):
        recent = 2 * math.fsum(cost for at, cost in began if at > now - 1.0)
        assert ledger.spent(now) >= left * recent * (1 - 1e-9) - 1e-9
    assert ledger.spent(11.1) == 0


def test_c2_what_has_not_begun_stays_when_the_rest_is_split() -> None:
    ledger = WindowLedger(100, 1.0)
    spend = charge(ledger, 60, 0.0)
    assert ledger.split(0.5, 0.5) == ([], ())
    assert ledger.spent(0.5) == ledger.starting == ledger.pledged == 60
    spend.started(0.5)
    assert ledger.split(0.25, 0.6) == ([(0.5, 15)], ())
    assert ledger.spent(0.6) == 45
    assert ledger.pledged == 0


def test_c2_what_is_given_away_whole_leaves_nothing_behind() -> None:
    ledger = of([(9.5, 10.0), (9.75, 20.0)])
    own, inherited = ledger.split(1.0, 10.0)
    assert own == [(9.5, 10.0), (9.75, 20.0)]
    assert inherited == ((0, 10.0), (1, 20.0))
    assert ledger.spent(10.0) == 0


def test_c1_an_instance_whose_clock_is_judged_by_others_counts_a_little_longer() -> None:
    ledger = WindowLedger(100, 60.0, shared=True)
    charge(ledger, 60, 0.0).started(0.0)
    assert ledger.spent(60.35) == 60
    assert ledger.spent(60.37) == 0


def test_what_is_set_aside_is_pledged_until_it_goes_back() -> None:
    ledger = WindowLedger(100, 1.0)
    ledger.hold(10)
    charge(ledger, 5, 0.0)
    assert ledger.pledged == 15
    ledger.release(10)
    assert ledger.pledged == 5


@pytest.mark.parametrize(("before", "after"), [(1.0, 5.0), (5.0, 1.0), (1.0, 0.1)])
def test_c1_with_another_period_what_has_begun_counts_on(before: float, after: float) -> None:
    ledger = WindowLedger(100, before)
    charge(ledger, 30, 0.0).started(0.0)
    late = charge(ledger, 20, 0.0)
    ledger.set_period(after, 0.05)
    assert ledger.spent(0.09) == 50
    late.started(0.09)
    assert ledger.spent(after * 0.99) == 50
    assert ledger.spent(0.09 + after * 1.01 + GUARD) == 0


def test_c7_without_capacity_nothing_is_there_and_nothing_breaks() -> None:
    ledger = WindowLedger(0, 1.0)
    assert ledger.available(5.0) == ledger.available(5.0, at_least=10) == 0
    assert ledger.ready_at(10, 5.0) == 6.0
    assert ledger.burst(0.0) == 0
    charge(ledger, 0, 5.0).started(5.0)
    ledger.receive(7, 10, expires=6.0)
    assert ledger.spent(5.5) == 10
    ledger.set_capacity(10)
    assert ledger.available(5.5, at_least=10) == 0
    assert ledger.available(6.1, at_least=10) == 10


def test_c7_capacity_that_went_and_came_back_remembers_what_was_spent() -> None:
    ledger = WindowLedger(100, 1.0)
    charge(ledger, 100, 0.0).started(0.0)
    ledger.hold(5)
    ledger.set_capacity(0)
    ledger.charge(5, 0.1).started(0.1)
    assert ledger.available(0.5) == 0
    ledger.set_capacity(100)
    assert ledger.available(0.9, at_least=100) == 0
    assert ledger.available(1.05, at_least=100) == pytest.approx(95)


def test_c2_what_was_charged_under_a_lease_that_has_ended_costs_nothing_and_does_not_begin() -> (
    None
):
    ledger = WindowLedger(100, 1.0)
    tenure = Tenure(1.0)
    ledger.hold(100)
    in_time, late = ledger.charge(40, 0.9, tenure), ledger.charge(60, 0.9, tenure)
    assert in_time.started(0.95)
    assert not late.started(1.0)
    assert ledger.spent(1.0) == 40
