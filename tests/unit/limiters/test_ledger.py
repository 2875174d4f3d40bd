"""Ledgers of what was spent on an amount: a split keeps the time profile and the sum (laws C1 and
C2)."""

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters import MemoryLeaseManager, RedisLeaseManager, SharedResource
from limiters._guard import guard_of
from limiters.leases._format import DEFAULT_LEASE_MS, DEFAULT_PERIOD_MS, DEFAULT_SPAN, SLICES
from limiters.leases._ledger import Ledger, counts_for, slice_end
from limiters.leases._messages import Terms

Entries = list[tuple[int, float]]
entries = st.lists(st.tuples(st.integers(0, 2_000), st.floats(0.001, 1_000)), max_size=40)
parts = st.floats(0, 1)


def counting(ledger: Ledger, since: int) -> float:
    """Return the entries that have a stamp after `since`, without changing it."""
    return math.fsum(cost for at, cost in ledger.entries if at > since)


@given(entries, parts)
def test_c2_a_split_takes_the_same_fraction_of_what_counts_at_any_time(
    spent: Entries, part: float
) -> None:
    whole, rest = Ledger(spent), Ledger(spent)
    taken = rest.split(part)
    for since in range(-1, 2_001, 100):
        before = counting(whole, since)
        assert counting(taken, since) == pytest.approx(part * before)
        assert counting(rest, since) == pytest.approx((1 - part) * before, abs=1e-9)


@given(entries, st.lists(parts, max_size=10))
def test_c2_however_often_it_is_split_nothing_is_lost_and_nothing_is_added(
    spent: Entries, splits: list[float]
) -> None:
    whole, rest = Ledger(spent), Ledger(spent)
    taken = [rest.split(part) for part in splits]
    for at, cost in whole.entries:
        found = [its for ledger in (rest, *taken) for when, its in ledger.entries if when == at]
        assert math.fsum(found) == pytest.approx(cost)
    again = Ledger()
    for ledger in (*taken, rest):
        again.merge(ledger.entries)
    assert dict(again.entries) == pytest.approx(dict(whole.entries))


@given(entries, parts, st.floats(0.1, 5))
def test_c1_if_the_whole_fits_its_amount_both_parts_fit_theirs_whatever_a_unit_is_worth(
    spent: Entries, part: float, worth: float
) -> None:
    ledger = Ledger(spent)
    amount = counting(ledger, 500) / worth  # it just fits
    taken = ledger.split(part)
    for since in (500, 900, 1_500):
        assert counting(taken, since) <= part * amount * worth * (1 + 1e-9) + 1e-9
        assert counting(ledger, since) <= (1 - part) * amount * worth * (1 + 1e-9) + 1e-9


@given(entries, st.integers(0, 2_000))
def test_total_forgets_what_no_longer_counts_and_sums_the_rest(spent: Entries, since: int) -> None:
    ledger = Ledger(spent)
    expected = math.fsum(cost for at, cost in spent if at > since)
    assert ledger.total(since) == pytest.approx(expected)
    assert all(at > since for at, _ in ledger.entries)
    assert [at for at, _ in ledger.entries] == sorted({at for at, _ in spent if at > since})


def test_taking_all_or_nothing_is_exact() -> None:
    ledger = Ledger([(100, 0.1), (200, 0.2)])
    assert ledger.split(0.0).entries == []
    assert ledger.entries == [(100, 0.1), (200, 0.2)]
    assert ledger.split(1.0).entries == [(100, 0.1), (200, 0.2)]
    assert ledger.entries == []


def test_costs_of_nothing_are_no_entries() -> None:
    ledger = Ledger([(100, 0.0), (100, -1.0), (200, 1.0)])
    assert ledger.entries == [(200, 1.0)]


def test_what_is_taken_back_leaves_the_rest_of_its_entry_alone() -> None:
    ledger = Ledger([(100, 5.0), (200, 1.0)])
    ledger.subtract(100, 2.0)
    ledger.subtract(150, 7.0)  # no such entry
    assert ledger.entries == [(100, 3.0), (200, 1.0)]
    ledger.subtract(100, 3.0)
    assert ledger.entries == [(200, 1.0)]


@given(st.integers(0, 10**9), st.sampled_from([1, 50, 100, 1_000, 3_333, 60_000, 86_400_000]))
def test_stamps_are_rounded_up_to_slices_that_are_the_same_for_all(at: int, period: int) -> None:
    end = slice_end(at, period)
    width = max(1, period // SLICES)
    assert at <= end < at + width
    assert slice_end(end, period) == end, "rounded once"
    assert end % width == 0


@pytest.mark.parametrize(("period", "counts"), [(1, 7), (1_000, 1_006), (60_000, 60_360)])
def test_an_entry_counts_for_a_period_and_a_guard(period: int, counts: int) -> None:
    assert counts_for(period) == counts


@pytest.mark.parametrize("period", [10, 999, 1_000, 1_001, 60_000])
def test_c1_an_instance_and_the_coordinator_count_spending_for_the_same_time(period: int) -> None:
    own = period + 1_000 * guard_of(period / 1_000, shared=True)
    assert 0 <= counts_for(period) - own < 1 + 1e-6


def test_the_default_span_is_that_of_the_default_terms() -> None:
    terms = Terms.scalar(1.0, 1.0, DEFAULT_PERIOD_MS, DEFAULT_LEASE_MS)
    assert terms.span == DEFAULT_SPAN
    for manager in (MemoryLeaseManager, RedisLeaseManager):
        default = inspect.signature(manager).parameters["lease_time"].default
        assert default * 1_000 == DEFAULT_LEASE_MS
    assert inspect.signature(SharedResource).parameters["period"].default * 1_000 == (
        DEFAULT_PERIOD_MS
    )
