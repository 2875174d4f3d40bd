"""The judge of the counting API, against its definition: every window and every instant."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.counted import (
    Allowed,
    Call,
    Meter,
    Window,
    busy,
    judged,
    most_in_flight,
    used,
    worst,
)

# Multiples of a quarter: their sums and differences are exact.
times = st.integers(0, 80).map(lambda quarters: quarters / 4)
spending = st.lists(st.tuples(times, st.integers(0, 9)), max_size=25)
windows = st.builds(
    Window, st.just("tokens"), st.integers(1, 20), st.integers(1, 12).map(lambda n: n / 4)
)


@given(spending, windows)
def test_worst_is_the_fullest_of_all_windows(
    spent: list[tuple[float, int]], window: Window
) -> None:
    def inside(end: float) -> int:
        return sum(cost for at, cost in spent if end - window.seconds < at <= end)

    found = worst(window, spent)
    assert found.most == max((inside(n / 8) for n in range(8 * 24)), default=0)
    assert (found.over > 0) == (found.most > window.most)


@given(spending, windows)
def test_a_meter_admits_what_overfills_no_window_and_says_when_it_would(
    spent: list[tuple[float, int]], window: Window
) -> None:
    meter, admitted = Meter(window), list[tuple[float, float]]()
    for at, cost in sorted(spent):
        wait = meter.room_in(cost, at)
        full = worst(window, [*admitted, (at, cost)]).over > 0
        assert (wait > 0) == full
        if not full:
            meter.add(cost, at)
            admitted.append((at, cost))
        elif math.isfinite(wait):
            assert not worst(window, [*admitted, (at + wait, cost)]).over
            assert worst(window, [*admitted, (at + wait - 0.125, cost)]).over
        else:
            assert cost > window.most


@given(st.lists(st.tuples(times, times)))
def test_most_in_flight_is_the_most_at_any_instant(spans: list[tuple[float, float]]) -> None:
    spans = [(begin, begin + length) for begin, length in spans if length]
    counts = [sum(begin <= n / 8 < end for begin, end in spans) for n in range(8 * 41)]
    assert most_in_flight(spans) == max(counts)


def call(began: float, ended: float, *, late: float = 0.0, refused: bool = False) -> Call:
    return Call("a", began, began + late, ended, {"requests": 1}, refused)


ALLOWED = Allowed((Window("requests", 2, 1.0),), in_flight=2, longest=5.0)


def test_what_arrives_late_is_judged_by_when_it_began() -> None:
    calls = [call(0.0, 2.0, late=0.9), call(0.5, 0.8), call(1.0, 2.0)]
    verdict = judged(calls, ALLOWED)
    assert verdict.holds, str(verdict)
    assert [one.over for one in verdict.by_arrived] == [1]
    assert verdict.latest == 0.9


def test_a_refused_call_was_one() -> None:
    verdict = judged([call(0, 0.1), call(0.2, 0.3), call(0.4, 0.4, refused=True)], ALLOWED)
    assert (verdict.over, verdict.refused) == (1, 1)


def test_too_many_calls_in_flight_are_over() -> None:
    verdict = judged([call(0, 9), call(2, 9), call(4, 9)], ALLOWED)
    assert not verdict.holds
    assert (verdict.in_flight, verdict.in_flight_here) == (3, 3)


@pytest.mark.parametrize("ended", [5.5, math.inf])
def test_a_call_counts_for_as_long_as_one_may_last(ended: float) -> None:
    verdict = judged([call(0, ended), call(0, ended), call(5, 6), call(5, 6)], ALLOWED)
    assert (verdict.in_flight, verdict.in_flight_here) == (2, 2)


def test_use_and_busy_count_what_was_served() -> None:
    calls = [call(0, 1), call(1, 3, late=1), call(1, 1, refused=True), call(4, math.inf)]
    assert used(calls, "requests", 0, 4) == 2
    assert busy(calls, 0, 4) == pytest.approx((1 + 1) / 4)
    assert busy(calls, 4, 6) == 1
