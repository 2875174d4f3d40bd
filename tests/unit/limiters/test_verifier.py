"""The judge is judged: against one that looks at every window there is, one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters import ArgumentError, InFlight, Limits, Rate
from limiters.verifier import LogEntry, SpentCall, fairness, verify, verify_limits
from tests.examples import examples

# Times and periods in quarters, costs in whole numbers: sums and differences are exact.
quarters = st.integers(0, 60).map(lambda number: number / 4)
logs = st.lists(st.tuples(quarters, st.sampled_from("abc"), st.integers(0, 9)), max_size=25)
capacities = st.lists(st.tuples(quarters, st.integers(1, 20)), min_size=1, max_size=4)
periods = st.sampled_from([0.25, 1.0, 2.0])


def spent_in(log: list[tuple[float, str, int]], end: float, period: float) -> int:
    return sum(cost for at, _, cost in log if end - period < at <= end)


def in_force(steps: list[tuple[float, int]], at: float) -> int:
    """The capacity at that time; the first one before all."""
    known = [capacity for since, capacity in sorted(steps) if since <= at]
    return known[-1] if known else sorted(steps)[0][1]


def over_anywhere(
    log: list[tuple[float, str, int]],
    steps: list[tuple[float, int]],
    period: float,
    settling: float,
) -> bool:
    """By definition: at every eighth of a second, every capacity in force in the window."""
    for eighth in range(8 * 20):
        end = eighth / 8
        looked_at = round((period + settling) * 8)
        limit = max(in_force(steps, end - back / 8) for back in range(looked_at + 1))
        if spent_in(log, end, period) > limit:
            return True
    return False


@given(logs, st.integers(1, 30), periods)
def test_c1_it_finds_what_brute_force_finds(
    log: list[tuple[float, str, int]], capacity: int, period: float
) -> None:
    verdict = verify(log, capacity, period=period)
    fullest = max((spent_in(log, at, period) for at, _, _ in log), default=0)
    assert verdict.worst == pytest.approx(fullest / capacity)
    assert verdict.holds == (fullest <= capacity)
    ends = {at for at, _, _ in log}
    assert verdict.windows == len(ends)
    assert verdict.over == sum(spent_in(log, at, period) > capacity for at in ends)
    assert verdict.total == sum(cost for _, _, cost in log)
    if log and fullest:
        assert spent_in(log, verdict.worst_at, period) == fullest


@settings(max_examples=examples(40))
@given(logs, capacities, periods, st.sampled_from([0.0, 0.5, 2.0]))
def test_c9_with_a_capacity_that_changes_too(
    log: list[tuple[float, str, int]],
    steps: list[tuple[float, int]],
    period: float,
    settling: float,
) -> None:
    steps = list(dict(steps).items())
    verdict = verify(log, steps, period=period, settling=settling)
    assert verdict.holds != over_anywhere(log, steps, period, settling)


def test_c9_a_window_that_lies_wholly_after_a_lowering_is_held_against_what_is_left() -> None:
    log = [(0.0, "a", 8), (0.5, "b", 8)]
    assert not verify(log, [(-9.0, 100), (-0.25, 10)]).holds
    assert verify(log, [(-9.0, 100), (-0.25, 10)], settling=0.5).holds


eighths = st.integers(0, 4).map(lambda number: number / 8)


@given(
    st.lists(st.tuples(quarters, st.integers(1, 9), eighths), min_size=1, max_size=25),
    st.integers(9, 30),
)
def test_c1_notes_that_are_late_by_less_than_stated_put_nothing_over(
    starts: list[tuple[float, int, float]], capacity: int
) -> None:
    log = [(at, "a", cost) for at, cost, _ in starts]
    noted = [(at + late, "a", cost) for at, cost, late in starts]
    if verify(log, capacity).holds:
        assert verify(noted, capacity, late=0.5).holds
    # And what is over however late each note was, is over.
    close = [(at / 10, "a", cost) for at, _, cost in log if at < 5]
    total = sum(cost for _, _, cost in close)
    assert verify(close, capacity, late=0.5).holds == (total <= capacity)


def test_what_was_used_counts_capacities_for_as_long_as_they_were_in_force() -> None:
    log = [(0.0, "a", 99), (1.0, "a", 10), (2.0, "a", 10)]
    assert verify(log, [(0.0, 10), (1.0, 30)]).used == pytest.approx(20 / 40)
    assert verify([], 10).used == 0
    log = [(0.0, "a", 10), (60.0, "a", 10), (120.0, "a", 5)]
    assert verify(log, 10, period=60).used == pytest.approx(0.75)
    assert str(verify([], 10)) == "nothing was spent"


def test_of_a_log_that_is_shorter_than_a_window_the_share_is_of_one_window() -> None:
    """At that pace more than the capacity would be used, but no window was full."""
    log = [(at / 10, "a", 800) for at in range(81)]
    short = verify(log, 90_000, period=60)
    assert short.is_short
    assert short.used == pytest.approx(80 * 800 / 90_000)
    assert str(short).endswith("0.7111 of the capacity used, in less than a window")
    assert not verify([*log, (60.0, "a", 1)], 90_000, period=60).is_short


@pytest.mark.parametrize(
    ("parameter", "arguments"),
    [
        ("capacity", {"capacity": 0}),
        ("capacity", {"capacity": math.nan}),
        ("capacity", {"capacity": []}),
        ("capacity", {"capacity": [(0.0, -1)]}),
        ("period", {"period": 0}),
        ("settling", {"settling": -1}),
        ("late", {"late": -1}),
        ("late", {"late": 1}),
    ],
)
def test_bad_values_are_named(parameter: str, arguments: dict[str, object]) -> None:
    told: dict[str, object] = {"capacity": 10} | arguments
    with pytest.raises(ValueError, match=f"^{parameter} must"):
        verify([(0.0, "a", 1)], **told)  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [(0.0, "a", math.nan), (0.0, "a", -1), (math.inf, "a", 1)])
def test_what_cannot_have_been_spent_is_no_verdict(entry: tuple[float, str, float]) -> None:
    with pytest.raises(ValueError, match=r"^log must have finite times"):
        verify([entry, (0.5, "a", 1)], 10)


@given(logs, st.permutations("abc"))
def test_c5_fairness_is_jains_index(log: list[tuple[float, str, int]], names: list[str]) -> None:
    spent = [sum(c for at, n, c in log if n == name and 1 <= at < 9) for name in names]
    index = fairness(log, names, start=1, end=9)
    if any(spent):
        assert index == pytest.approx(sum(spent) ** 2 / (3 * sum(x * x for x in spent)))
    assert 1 / 3 - 1e-9 <= index <= 1 + 1e-9


def test_c5_fairness_by_weight_and_of_nothing() -> None:
    log = [(0.0, "a", 1), (0.5, "b", 3), (0.6, "stranger", 50)]
    assert fairness(log, ["a", "b"], start=0, end=1, weights={"a": 1, "b": 3}) == 1
    assert fairness(log, ["a", "b"], start=0, end=1) == pytest.approx(0.8)
    assert fairness([], ["a", "b"], start=0, end=1) == 1


API = Limits(
    requests=Rate(6, per=6, also=[Rate(2, per=1)]),
    tokens=Rate(9, per=2, counts="end", max_operation_time=4),
    calls=InFlight(3, max_operation_time=4),
)

calls = st.lists(
    st.tuples(
        quarters,
        st.sampled_from("abc"),
        st.fixed_dictionaries(
            {"requests": st.integers(0, 2), "tokens": st.integers(0, 5), "calls": st.integers(0, 2)}
        ),
        st.none() | st.integers(1, 12).map(lambda number: number / 4),
    ).map(lambda it: SpentCall(*it[:3], None if it[3] is None else it[0] + it[3])),
    max_size=15,
)


def end_of(call: SpentCall) -> float:
    return call.at + 4 if call.end is None else call.end


def amount(call: SpentCall, dimension: str) -> float:
    assert isinstance(call.cost, dict)
    return float(call.cost[dimension])


@settings(max_examples=examples(200), deadline=None)
@given(calls)
def test_v1_v7_each_dimension_and_window_is_judged_by_definition(log: list[SpentCall]) -> None:
    verdict = verify_limits(log, API)
    ends = [eighth / 8 for eighth in range(8 * 25)]
    for window, per, capacity in ((0, 6, 6), (1, 1, 2)):
        over = any(
            sum(amount(it, "requests") for it in log if end - per < it.at <= end) > capacity
            for end in ends
        )
        assert verdict.of("requests")[window].holds is not over
    over = any(
        sum(amount(it, "tokens") for it in log if end - 2 < end_of(it) <= end) > 9 for end in ends
    )
    assert verdict.of("tokens")[0].holds is not over


@settings(max_examples=examples(200), deadline=None)
@given(calls)
def test_n1_calls_in_flight_are_counted_by_definition(log: list[SpentCall]) -> None:
    over = any(
        sum(amount(it, "calls") for it in log if it.at <= at < end_of(it)) > 3
        for at in (eighth / 8 for eighth in range(8 * 25))
    )
    verdict = verify_limits(log, API)
    assert verdict.of("calls")[0].holds is not over
    assert verdict.holds is all(one.holds for _, one in verdict.bounds)


def test_n1_one_that_begins_when_there_are_too_many_calls_already_is_over() -> None:
    def limits(number: int) -> Limits:
        return Limits(requests=Rate(100), calls=InFlight(number))

    steps = [(0.0, limits(3)), (1.0, limits(1))]
    running = [SpentCall(0.5, "a", {"calls": 3}, 3.0)]
    assert verify_limits(running, steps).holds
    assert not verify_limits([*running, SpentCall(2.0, "b", {"calls": 1}, 4.0)], steps).holds
    assert verify_limits([*running, SpentCall(3.0, "b", {"calls": 1}, 4.0)], steps).holds
    late = [SpentCall(0.5, "a", {"calls": 2}, 3.0), SpentCall(1.2, "b", {"calls": 1}, 2.0)]
    assert not verify_limits(late, steps).holds
    assert verify_limits(late, steps, settling=0.5).holds


def test_v7_a_log_of_another_dimension_is_refused() -> None:
    with pytest.raises(ArgumentError, match="cost must be of requests, tokens and calls alone"):
        verify_limits([(0.0, "a", {"toks": 1})], API)
    with pytest.raises(ArgumentError, match="limits must name at least one Limits"):
        verify_limits([], [])


def test_the_verdict_has_a_line_for_each_bound() -> None:
    lines = str(verify_limits([(0.0, "a", {"requests": 3}, 0.5)], API)).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "6 per 6 s",
        "2 per 1 s",
        "9 per 2 s",
        "3 in flight",
    ]
    assert "1 OVER of 1" in lines[1]


def test_a_log_of_one_dimension_takes_numbers() -> None:
    assert verify_limits([(0.0, "a", 5), (0.5, "a", 5)], Limits.of(10)).holds
    assert not verify_limits([(0.0, "a", 1, 2.0), (1.0, "a", 1)], Limits(calls=InFlight(1))).holds


def test_z1_actual_costs_are_judged_where_the_log_has_them() -> None:
    log: list[LogEntry] = [
        (0.0, "a", 9.0, 4.0),
        (0.2, "b", 9.0, 5.0),
        (0.3, "a", 1.0, None),
        (0.9, "b", 1.0),
    ]
    verdict = verify(log, 10)
    assert verdict.over == 1, "by the last one, which has no actual cost: 4 + 5 + 1 + 1"
    assert (verdict.total, verdict.estimated) == (11.0, 20.0)
    assert verdict.cost_ratio == 0.55
    assert str(verdict).endswith("; 0.5500 of the estimated costs")
    assert fairness(log, ["a", "b"], start=0, end=1) == fairness(
        [(0.0, "a", 5.0), (0.0, "b", 6.0)], ["a", "b"], start=0, end=1
    )


def test_z1_of_several_dimensions_those_that_were_settled_are_judged() -> None:
    limits = Limits(requests=Rate(10), tokens=Rate(100))
    log = [
        SpentCall(0.0, "a", {"requests": 1, "tokens": 90}, 0.5, {"tokens": 20}),
        SpentCall(0.1, "a", {"requests": 1, "tokens": 90}, 0.5, {"tokens": 81}),
    ]
    verdict = verify_limits(log, limits)
    assert verdict.of("requests")[0].total == 2
    (tokens,) = verdict.of("tokens")
    assert (tokens.over, tokens.worst, tokens.estimated) == (1, 1.01, 180)


@pytest.mark.parametrize("actual", [-1.0, math.nan, math.inf])
def test_a_log_with_an_impossible_actual_cost_is_refused(actual: float) -> None:
    with pytest.raises(ArgumentError, match="costs of zero or more"):
        verify([(0.0, "a", 1.0, actual)], 10)


@pytest.mark.parametrize(
    ("judge", "log", "limit", "says"),
    [
        (verify, [(0.0, "a")], 5, "log must have entries of (time, instance, cost), in numbers"),
        (verify, [(0.0, "a", "5")], 5, "log must have entries of (time, instance, cost), in numb"),
        (verify, [(0.0, "a", {"b": 5})], 5, "; verify_limits judges costs by dimension"),
        (verify, [(0.0, "a", 5)], Limits(b=Rate(5)), "; verify_limits judges Limits"),
        (verify, [(0.0, "a", 5)], None, "capacity must be a number, or a list of (from when, capa"),
        (verify_limits, [(0.0, "a", 5)], 5, "limits must be Limits, or a list of (from when, lim"),
        (
            verify_limits,
            [(0.0, "a")],
            Limits(b=Rate(5)),
            "log must have entries of (time, instance",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_with_what_can(
    judge: Any, log: Any, limit: Any, says: str
) -> None:
    with pytest.raises(ArgumentError) as refused:
        judge(log, limit)
    assert says in str(refused.value)
