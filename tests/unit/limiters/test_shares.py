"""How much each instance gets: laws C5 and V5, dominant resource fairness in whole units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limiters.leases._coordinator.shares import (
    Filling,
    Level,
    NeedShape,
    Share,
    dominant_share,
    fill,
    in_order,
    next_levels,
    share_of,
)
from limiters.leases._format import SHAPE, UNITS

weights = st.sampled_from([1, 500, 1_000, 1_000, 2_000, 3_333, 1_000_000])
wholes = st.lists(st.sampled_from([UNITS, UNITS, UNITS, 3, 50, 20_000]), min_size=1, max_size=4)
ROUNDS = 100
"""Far more than there are where needs do not differ wildly: two or three."""

Crowd = tuple[list[int], list[tuple[list[int], int]]]
"""The wholes of bounds, and the needs and the weight of each instance."""


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    bounds = draw(wholes)
    needs = st.tuples(*(st.one_of(st.just(0), st.integers(0, whole)) for whole in bounds))
    return bounds, [(list(one), draw(weights)) for one in draw(st.lists(needs, max_size=30))]


def levels_of(
    demands: Sequence[NeedShape],
    bounds: Sequence[int],
    left: Sequence[int] | None = None,
    levels: Sequence[Level] = (),
) -> list[Level]:
    """Where rounds end that begin at these levels: from nothing by default."""
    found = list(levels) or [Level()] * len(bounds)
    for _ in range(ROUNDS):
        order, fillings = in_order(found, bounds), [Filling() for _ in bounds]
        for demand in demands:
            fill(fillings, demand, found, order, bounds)
        before, found = found, next_levels(found, fillings, left or bounds, order, bounds)
        if found == before:
            return found
    raise AssertionError(f"levels still move after {ROUNDS} rounds: {before}, {found}")


def shares_of(crowd: Crowd, left: Sequence[int] | None = None) -> list[Share]:
    bounds, instances = crowd
    demands = [NeedShape(needs, weight, bounds) for needs, weight in instances]
    levels = levels_of(demands, bounds, left)
    return [share_of(one, levels) for one in demands]


@given(crowds())
def test_v1_shares_of_a_bound_never_exceed_the_whole_and_none_is_more_than_needed(
    crowd: Crowd,
) -> None:
    bounds, instances = crowd
    shares = shares_of(crowd)
    for at, whole in enumerate(bounds):
        assert sum(share.units[at] for share in shares) <= whole
    for share, (needs, _) in zip(shares, instances, strict=True):
        assert all(0 <= one <= need for one, need in zip(share.units, needs, strict=True))
        assert share.limited or share.units == needs


@given(crowds(), st.data())
def test_v1_what_is_kept_aside_is_not_shared(crowd: Crowd, data: st.DataObject) -> None:
    left = [data.draw(st.integers(-5, whole)) for whole in crowd[0]]
    shares = shares_of(crowd, left)
    for at, units in enumerate(left):
        assert sum(share.units[at] for share in shares) <= max(0, units)


@given(crowds())
def test_v4_an_instance_gets_the_mix_that_it_needs_and_is_limited_by_a_bound_that_is_used_up(
    crowd: Crowd,
) -> None:
    bounds, instances = crowd
    shares = shares_of(crowd)
    used = [sum(share.units[at] for share in shares) for at in range(len(bounds))]
    for share, (needs, _) in zip(shares, instances, strict=True):
        if not share.limited:
            continue
        scales = [part / need for part, need in zip(share.parts, needs, strict=True) if need]
        assert max(scales) - min(scales) < 1e-5, "the same part of all that it needs"
        # Of some bound that it needs there is nothing left: a unit each, for rounding, and what
        # the shapes of needs lose as they are rounded.
        assert any(
            need and used[at] >= bounds[at] * (1 - 3 / SHAPE) - len(instances)
            for at, need in enumerate(needs)
        ) or any(
            0 < need < 2 * bounds[at] / SHAPE * len(instances) for at, need in enumerate(needs)
        )


@given(crowds().flatmap(lambda found: st.tuples(st.just(found), st.permutations(found[1]))))
def test_c5_the_order_in_which_instances_are_listed_changes_nothing(
    orders: tuple[Crowd, list[tuple[list[int], int]]],
) -> None:
    (bounds, one), other = orders
    first, second = (
        levels_of([NeedShape(needs, weight, bounds) for needs, weight in instances], bounds)
        for instances in (one, other)
    )
    assert first == second


@given(crowds(), st.data())
def test_c5_rounds_that_begin_at_other_levels_end_at_the_same(
    crowd: Crowd, data: st.DataObject
) -> None:
    """Wherever no instance needs so little of a bound that it is lost in rounding. Whether such a
    need is seen, where others use up the bound, depends on where the rounds began; and if it is,
    its instance gets as little of all that it needs."""
    bounds, instances = crowd
    lost = [2 * whole / SHAPE * len(instances) for whole in bounds]
    assume(
        all(
            not 0 < one < least
            for needs, _ in instances
            for one, least in zip(needs, lost, strict=True)
        )
    )
    demands = [NeedShape(needs, weight, bounds) for needs, weight in instances]
    others = [
        Level(data.draw(st.integers(0, UNITS)), data.draw(st.integers(0, 2**50))) for _ in bounds
    ]
    ends = levels_of(demands, bounds), levels_of(demands, bounds, None, others)
    for demand in demands:
        one, other = (share_of(demand, levels).units for levels in ends)
        assert one == pytest.approx(other, rel=2 / SHAPE, abs=1)


one_bound = st.lists(st.tuples(st.integers(0, UNITS), weights), max_size=40)


@given(one_bound, st.integers(0, UNITS))
def test_c5_with_one_bound_it_is_weighted_max_min_to_the_unit(
    asks: list[tuple[int, int]], there: int
) -> None:
    shares = shares_of(([UNITS], [([need], weight) for need, weight in asks]), [there])
    given_ = [share.units[0] for share in shares]
    if sum(need for need, _ in asks) <= there:
        assert given_ == [need for need, _ in asks]
        return
    assert sum(given_) <= there
    assert sum(given_) >= there - len(asks), "a unit each, for rounding"
    # No instance can be given more without taking it from one who has no more for its weight.
    levels = {
        Fraction(units, weight)
        for units, (need, weight) in zip(given_, asks, strict=True)
        if units < need
    }
    for units, (_, weight) in zip(given_, asks, strict=True):
        assert all(Fraction(units - 1, weight) <= level + 1 for level in levels)


@given(st.integers(1, 200))
def test_c5_equals_get_the_same_to_the_unit_also_with_more_instances_than_partitions(
    instances: int,
) -> None:
    for share in shares_of(([UNITS], [([UNITS], 1_000)] * instances)):
        assert share.units == [UNITS // instances]


def test_c5_one_who_needs_a_thousandth_gets_that_and_the_busy_one_the_rest() -> None:
    light, busy = UNITS // 1_000, UNITS
    *lights, rest = shares_of(([UNITS], [*[([light], 1_000)] * 10, ([busy], 1_000)]))
    assert all(one.units == [light] for one in lights)
    assert rest.units == [UNITS - 10 * light]


@pytest.mark.parametrize("weight", [1, 999, 1_000_000])
def test_c5_weights_divide_what_is_short(weight: int) -> None:
    first, other = shares_of(([UNITS], [([UNITS], weight), ([UNITS], 1_000)]))
    assert first.units[0] * 1_000 == pytest.approx(other.units[0] * weight, rel=1e-3)
    assert UNITS - 2 <= first.units[0] + other.units[0] <= UNITS


def dominant(share: Share, bounds: Sequence[int]) -> float:
    return max(part / whole for part, whole in zip(share.parts, bounds, strict=True))


def jain(numbers: Sequence[float]) -> float:
    return sum(numbers) ** 2 / (len(numbers) * math.fsum(one * one for one in numbers))


@given(st.lists(st.tuples(st.floats(0.05, 1.0), st.booleans()), min_size=1, max_size=40))
def test_v5_equals_with_different_mixes_have_the_same_dominant_share(
    mixes: list[tuple[float, bool]],
) -> None:
    """All need both bounds, one of them most."""
    bounds = [UNITS, UNITS]
    needs = [
        [UNITS, round(UNITS * other)] if first else [round(UNITS * other), UNITS]
        for other, first in mixes
    ]
    shares = shares_of((bounds, [(one, 1_000) for one in needs]))
    # Those who stop at the bound that is used up first have the same; who could go on do.
    assert jain([min(dominant(one, bounds), 2 / len(mixes)) for one in shares]) >= 0.79
    lowest = min(dominant(one, bounds) for one in shares)
    used = [sum(one.parts[at] for one in shares) / UNITS for at in range(2)]
    stopped = [one for one in shares if dominant(one, bounds) <= lowest * (1 + 1e-4)]
    assert max(used) > 1 - 1e-5
    if min(used) < 1 - 1e-5:  # only one bound is used up, which all of them need
        assert len(stopped) == len(shares)
        assert jain([dominant(one, bounds) for one in shares]) >= 0.99


@given(crowds(), st.data())
def test_v5_asking_for_more_than_its_mix_never_gains(crowd: Crowd, data: st.DataObject) -> None:
    """Of two with a backlog, one says that it needs more of some bounds than its mix can use: it
    gets no more of the mix for that."""
    bounds, instances = crowd
    parts = [data.draw(st.floats(1e-3, 1)) for _ in bounds]
    mix = [math.ceil(part / max(parts) * whole) for part, whole in zip(parts, bounds, strict=True)]
    lie = [data.draw(st.integers(need, whole)) for need, whole in zip(mix, bounds, strict=True)]
    honest, liar = (shares_of((bounds, [(needs, 1_000), *instances]))[0] for needs in (mix, lie))
    batches = [
        min(part / need for part, need in zip(share.parts, mix, strict=True))
        for share in (honest, liar)
    ]
    assert batches[1] <= batches[0] * (1 + 1e-4) + 1e-4


def test_v5_the_classic_example_of_two_mixes() -> None:
    """Nine processors and 18 GB: tasks of <1, 4> and <3, 1> get three and two."""
    bounds = [9 * 10**8, 18 * 10**8]
    one, other = shares_of(
        (bounds, [([45 * 10**7, 18 * 10**8], 1_000), ([9 * 10**8, 3 * 10**8], 1_000)])
    )
    assert one.units == pytest.approx([3 * 10**8, 12 * 10**8], rel=1e-5)
    assert other.units == pytest.approx([6 * 10**8, 2 * 10**8], rel=1e-5)


def test_v5_those_who_do_not_need_what_is_used_up_go_on() -> None:
    instances = [([UNITS, 0], 1_000), ([UNITS, UNITS], 1_000), ([0, UNITS], 1_000)]
    first, both, other = shares_of(([UNITS, UNITS], instances))
    for share in (first, both, other):
        assert dominant(share, [UNITS, UNITS]) == pytest.approx(0.5, rel=1e-5)
    first, both, *others = shares_of(([UNITS, UNITS], [*instances, ([0, UNITS], 1_000)]))
    assert both.units == pytest.approx([UNITS / 3, UNITS / 3], rel=1e-5)
    assert first.units[0] == pytest.approx(UNITS * 2 / 3, rel=1e-5)
    assert all(one.units[1] == pytest.approx(UNITS / 3, rel=1e-5) for one in others)


@given(crowds())
def test_c4_the_dominant_share_is_what_one_gets_that_needs_all_of_its_bounds(crowd: Crowd) -> None:
    bounds, instances = crowd
    levels = levels_of([NeedShape(needs, weight, bounds) for needs, weight in instances], bounds)
    for needs, weight in instances:
        demand = NeedShape(needs, weight, bounds)
        share, fair = share_of(demand, levels), dominant_share(needs, weight, levels, bounds)
        assert 1 <= fair <= UNITS
        # A need of less than a part of SHAPE of the dominant one counts as such a part.
        largest = max(need / whole for need, whole in zip(needs, bounds, strict=True))
        is_kept = all(
            not need or need / whole > largest * 1e4 / SHAPE
            for need, whole in zip(needs, bounds, strict=True)
        )
        if share.limited and is_kept:
            assert dominant(share, bounds) <= fair / UNITS * (1 + 1e-3) + 1e-3


def test_no_instances_and_no_amount() -> None:
    assert levels_of([], [5]) == [Level()]
    assert levels_of([NeedShape([0], 1_000, [5])], [5], [0]) == [Level()]
    assert share_of(NeedShape([7], 1_000, [9]), [Level()]).units == [7]
    [level] = levels_of([NeedShape([3], 1_000, [5])], [5], [0])
    assert share_of(NeedShape([3], 1_000, [5]), [level]).units == [0]
