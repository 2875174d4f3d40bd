"""Who gets how many partitions: law C5, weighted max-min and remainders that rotate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters.fair_share import (
    MEMORY,
    Ask,
    Entitled,
    credit_after,
    entitled,
    share_out,
    water_level,
)

weights = st.sampled_from([0.5, 1.0, 1.0, 2.0, 3.0])
crowds = st.lists(st.tuples(st.integers(0, 40), weights), max_size=30).map(
    # Whoever is owed the same as another one could get the same left-over partition.
    lambda found: [Ask(wanted, weight, n / 7 - 1) for n, (wanted, weight) in enumerate(found)]
)
units = st.integers(0, 60)
remainders = st.sampled_from([0.0, 0.25, 0.5, 0.9])


def fill(asks: list[Ask], level: float) -> float:
    return math.fsum(min(ask.wanted, ask.weight * level) for ask in asks)


@given(crowds, st.floats(0, 60))
def test_c5_the_level_is_that_of_weighted_max_min(asks: list[Ask], units: float) -> None:
    level = water_level(asks, units)
    wanted = sum(ask.wanted for ask in asks)
    if wanted <= units:
        assert level == math.inf
    else:
        # All are filled up to the same level and no further, but for those who want less: nobody
        # could be given more without taking it from one that has no more for its weight.
        assert fill(asks, level) == pytest.approx(units, abs=1e-6)


def outcome(asks: list[Ask], full: int, remainder: float) -> list[Entitled]:
    shares = share_out(asks, full, remainder)
    return [entitled(shares, ask) for ask in asks]


def worth(one: Entitled, ask: Ask, remainder: float) -> float:
    # Who gets all it wants gets the last one only in place of a full one.
    return one.full + remainder * (one.last and one.full < ask.wanted)


@given(crowds, units, remainders)
def test_c5_no_more_is_given_than_there_is(asks: list[Ask], full: int, remainder: float) -> None:
    result = outcome(asks, full, remainder)
    lasts = [o for o, ask in zip(result, asks, strict=True) if o.last and o.full < ask.wanted]
    if sum(ask.wanted for ask in asks) <= full + remainder:
        assert [one.full for one in result] == [ask.wanted for ask in asks]
        assert all(one.last for one in result)
    else:
        assert sum(one.full for one in result) <= full
        assert len(lasts) <= 1
        assert not (lasts and not remainder and sum(one.full for one in result) >= full)


@given(crowds, units, remainders)
def test_c5_nothing_is_left_over_while_somebody_wants_it(
    asks: list[Ask], full: int, remainder: float
) -> None:
    result = outcome(asks, full, remainder)
    given_ = sum(one.full for one in result)
    assert given_ >= min(full, sum(ask.wanted for ask in asks))


@given(crowds, units, remainders)
def test_c5_everybody_is_within_one_of_its_share_and_no_more_than_it_wants(
    asks: list[Ask], full: int, remainder: float
) -> None:
    for one, ask in zip(outcome(asks, full, remainder), asks, strict=True):
        assert 0 <= one.full <= ask.wanted
        assert abs(one.full - one.share) < 1 + 1e-6
        assert one.full >= math.floor(one.share + 1e-9)


@given(st.integers(1, 30), units, remainders)
def test_c5_those_that_are_owed_more_go_before_those_that_are_owed_less(
    count: int, full: int, remainder: float
) -> None:
    asks = [Ask(40, 1.0, number / 7) for number in range(count)]
    result = outcome(asks, full, remainder)
    got = [worth(one, ask, remainder) for one, ask in zip(result, asks, strict=True)]
    assert got == sorted(got)
    assert max(got) - min(got) <= 1 + 1e-6


@given(st.integers(2, 9), st.integers(1, 30), remainders)
def test_c5_remainders_rotate_until_all_have_had_the_same(
    count: int, full: int, remainder: float
) -> None:
    credit = [number * 1e-6 for number in range(count)]
    had = [0.0] * count
    turns = 40 * count
    for _ in range(turns):
        asks = [Ask(40, 1.0, one) for one in credit]
        for number, one in enumerate(outcome(asks, full, remainder)):
            got = worth(one, asks[number], remainder)
            had[number] += got
            credit[number] = credit_after(credit[number], one.share - got, 0.1)
    assert max(had) - min(had) <= 0.02 * max(had) + 3


def test_credit_fades_and_grows() -> None:
    assert credit_after(1.0, 0.0, MEMORY) == 0
    assert credit_after(1.0, 0.0, 10 * MEMORY) == 0
    assert credit_after(0.0, 0.5, 2.0) == 1.0
    assert credit_after(-1.0, 0.0, MEMORY / 2) == -0.5
    assert credit_after(3.0, 7.0, 0.0) == 3.0


@given(st.floats(-9, 9), st.floats(-9, 9), st.floats(0, 100))
def test_credit_has_six_digits_whatever_it_was(credit: float, owed: float, after: float) -> None:
    result = credit_after(credit, owed, after)
    assert result == round(result, 6)


def test_nobody_and_nothing() -> None:
    assert share_out([], 5, 0.5).level == math.inf
    assert outcome([Ask(3)], 0, 0.0) == [Entitled(0.0, 0, False)]
    assert outcome([Ask(0)], 5, 0.0) == [Entitled(0.0, 0, True)]
    assert outcome([Ask(3)], 0, 0.5) == [Entitled(0.5, 0, True)]
