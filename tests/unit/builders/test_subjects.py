"""Batches by subject: the seed's example, laws S1 to S6, and what cannot be used."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.builders import MeasurementError, SubjectBatch, SubjectBuilder
from tests import plain_builders as plain
from tests.examples import examples

Measured = tuple[Any, ...]
"""Time, subject, number; then lane and cost where they are asked for."""

times = st.integers(-3, 6) | st.sampled_from([2**70, -(10**15), 0.5])
subjects = st.sampled_from(["a", "b", "c", None])
measured = st.lists(st.tuples(times, subjects), max_size=40).map(
    lambda pairs: [(*pair, number) for number, pair in enumerate(pairs)]
)
bursts = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from("abcdefg"), st.integers(1, 9)), max_size=20
).map(
    lambda groups: [
        (time, subject, n)
        for n, (time, subject) in enumerate((t, s) for t, s, count in groups for _ in range(count))
    ]
)


def builder(most: int = 3, **options: Any) -> SubjectBuilder[Measured]:
    return SubjectBuilder(most, subject=lambda m: m[1], event_time=lambda m: m[0], **options)


def built(measurements: Iterable[Measured], most: int, **options: Any) -> list[Any]:
    made = builder(most, **options)
    made.extend(measurements)
    return made.build()


def fills(batches: list[SubjectBatch[Measured]]) -> list[int]:
    return [len(batch.measurements) for batch in batches]


# The seed.

TABLE = """
    | 0 | 1 | 2 | 3 | 1 | 2 | 3 |
    | 1 | - | - | - | 1 | 2 | 3 |
    | 2 | 1 | 2 | 3 | - | - | - |
    | 3 | 1 | - | - | 1 | 2 | 3 |
    | 4 | x | 2 | 3 | - | - | 3 |
    | 5 | x | x | - | 1 | - | - |
    | 6 | - | - | - | 1 | - | - |
"""
SEVEN = """
    S1M1T0 S1M2T0 S1M3T0 · S2M1T0 S2M2T0 S2M3T0 · S2M1T1 S2M2T1 S2M3T1 · S1M1T2 S1M2T2 S1M3T2 ·
    S2M1T3 S2M2T3 S2M3T3 · S1M1T3 S1M2T4 S1M3T4 · S2M3T4 S2M1T5 S2M1T6
"""


def test_s4_the_seeds_example_gives_its_seven_batches() -> None:
    cells = [
        (int(time), f"S{1 + column // 3}", f"S{1 + column // 3}M{cell}T{time}")
        for time, *row in (re.findall(r"[\dx-]+", line) for line in TABLE.strip().splitlines())
        for column, cell in enumerate(row)
        if cell not in "x-"
    ]
    batches = [[name for _, _, name in batch.measurements] for batch in built(cells, 3)]
    assert batches == [batch.split() for batch in SEVEN.split("·")]


# S1 to S4 and S6, on anything.


def check(measurements: list[Measured], batches: list[Any], most: int, within: Any = 0) -> None:
    assert sorted(m[2] for batch in batches for m in batch.measurements) == sorted(
        m[2] for m in measurements
    )
    assert all(1 <= size <= most for size in fills(batches))
    at_once = {
        one[2]: number
        for number, groups in enumerate(plain.timestamps(measurements, within))
        for group in groups
        for one in group
    }
    placed = [[at_once[m[2]] for m in batch.measurements] for batch in batches]
    for early, late in itertools.pairwise(placed):
        assert max(early) <= min(late)
    where = defaultdict(list)
    for number, batch in enumerate(batches):
        assert batch.start == min(m[0] for m in batch.measurements)
        assert batch.end == max(m[0] for m in batch.measurements)
        assert batch.subjects == tuple(dict.fromkeys(m[1] for m in batch.measurements))
        assert batch.cost == len(batch.measurements)
        for m in batch.measurements:
            where[at_once[m[2]], m[1]].append(number)
        if not within:
            assert [m[0] for m in batch.measurements] == sorted(m[0] for m in batch.measurements)
    for (_, _), numbers in where.items():
        if len(numbers) <= most:
            assert len(set(numbers)) == 1
        else:
            spread = sorted(set(numbers))
            assert spread == list(range(spread[0], spread[-1] + 1))
            assert all(len(batches[n].measurements) == most for n in spread[:-1])


@settings(max_examples=examples(300))
@given(measured | bursts, st.integers(1, 9), st.sampled_from([0, 1, 0.5, 3]))
def test_s1_s2_s3_hold(measurements: list[Measured], most: int, within: float) -> None:
    batches = built(measurements, most, together_within=within)
    check(measurements, batches, most, within)


@settings(max_examples=examples(300))
@given(bursts | measured, st.integers(1, 9), st.sampled_from([0, 2]))
def test_s4_as_few_and_as_empty_as_the_best_order_of_each_timestamp(
    measurements: list[Measured], most: int, within: int
) -> None:
    groups = plain.timestamps(measurements, within)
    if any(len(groups_at_once) > 6 for groups_at_once in groups):
        return  # too many orders to try them all
    sizes = fills(built(measurements, most, together_within=within))
    assert (len(sizes), sizes[-1] if sizes else 0) == plain.best(measurements, most, within)


@given(bursts | measured, st.integers(1, 20), st.sampled_from([0, 2]))
def test_s6_never_more_batches_than_next_fit(
    measurements: list[Measured], most: int, within: int
) -> None:
    batches = built(measurements, most, together_within=within)
    assert len(batches) <= len(plain.next_fit(measurements, most, within))


def test_s4_largest_first_within_a_timestamp() -> None:
    (batch,) = built([(0, "a", 1), (0, "b", 2), (0, "b", 3), (0, "c", 4)], 10)
    assert [m[2] for m in batch.measurements] == [2, 3, 1, 4]


@pytest.mark.parametrize("within", [Decimal(5), Fraction(5), np.int64(5), np.float64(5)])
def test_s3_together_within_may_be_any_kind_of_number(within: Any) -> None:
    measurements = [(0, "a", 1), (5, "b", 2), (6, "a", 3)]
    batches = built(measurements, 2, together_within=within)
    assert [[m[2] for m in batch.measurements] for batch in batches] == [[1, 2], [3]]


def test_s3_together_within_counts_from_the_first_of_a_timestamp() -> None:
    measurements = [(0, "a", 1), (4, "b", 2), (5, "a", 3), (6, "a", 4), (11, "a", 5)]
    batches = built(measurements, 2, together_within=5)
    assert [[m[2] for m in batch.measurements] for batch in batches] == [[1, 3], [2], [4, 5]]


def test_s3_together_within_datetimes_is_in_seconds() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    seconds = [0, 2, 1, 9]
    measurements = [(start + timedelta(seconds=s), "ab"[n % 2], n) for n, s in enumerate(seconds)]
    for within in (2, timedelta(seconds=2)):
        batches = built(measurements, 2, together_within=within)
        assert [[m[2] for m in batch.measurements] for batch in batches] == [[0, 2], [1, 3]]


# S5: lanes.


@given(
    st.lists(st.tuples(times, subjects, st.integers(), st.sampled_from(["x", "y", None]))),
    st.integers(1, 5),
)
def test_s5_lanes_are_independent_sequences(measurements: list[Measured], most: int) -> None:
    measurements = [(*m[:2], number, m[3]) for number, m in enumerate(measurements)]
    batches = built(measurements, most, lane=lambda m: m[3])
    lane_of = {m[2]: None if m[1] is None else m[3] for m in measurements}
    assert all(lane_of[m[2]] == batch.lane for batch in batches for m in batch.measurements)
    for lane in dict.fromkeys(lane_of.values()):
        members = [m for m in measurements if lane_of[m[2]] == lane]
        alone = built(members, most)
        same = [batch for batch in batches if batch.lane == lane]
        assert [b.measurements for b in same] == [b.measurements for b in alone]


def test_s5_what_has_no_subject_is_not_asked_for_its_lane() -> None:
    made = SubjectBuilder[Any](5, subject="id", event_time="at", lane=lambda m: m["id"][0])
    made.extend([{"id": None, "at": 1}, {"id": "abc", "at": 1}, {"id": None, "at": 0}])
    made.add({"id": None, "at": 2})
    assert [(batch.lane, len(batch.measurements)) for batch in made.build()] == [
        (None, 3),
        ("a", 1),
    ]


def test_s5_a_name_that_is_not_there_is_no_lane() -> None:
    made = SubjectBuilder[Any](5, subject="id", event_time="at", lane="type")
    made.extend([{"id": "a", "at": 1, "type": "x"}, {"id": "b", "at": 1}])
    made.add({"id": "c", "at": 0})
    assert [(batch.lane, batch.subjects) for batch in made.build()] == [
        ("x", ("a",)),
        (None, ("c", "b")),
    ]


# Costs.


@given(
    st.lists(st.tuples(times, subjects, st.integers(), st.floats(0, 5) | st.integers(0, 5))),
    st.integers(1, 6),
)
def test_s1_s2_s3_hold_with_costs(measurements: list[Measured], most: int) -> None:
    measurements = [(*m[:2], number, m[3]) for number, m in enumerate(measurements)]
    batches = built(measurements, most, cost=lambda m: m[3], max_batch_cost=10)
    numbers = [m[2] for batch in batches for m in batch.measurements]
    assert sorted(numbers) == list(range(len(measurements)))
    for batch in batches:
        assert len(batch.measurements) <= most
        assert batch.cost <= 10
        assert [m[0] for m in batch.measurements] == sorted(m[0] for m in batch.measurements)
    for early, late in itertools.pairwise(batches):
        assert early.end <= late.start
    for groups in plain.timestamps(measurements):
        for group in groups:
            if len(group) <= most and sum(m[3] for m in group) < 9.999:
                assert (
                    len({n for n, b in enumerate(batches) for m in b.measurements if m in group})
                    == 1
                )


def test_s2_costs_move_nothing_before_what_is_older() -> None:
    measurements = [(0, "a", 1), (1, "b", 9), (2, "c", 3), (2, "c", 4)]
    batches = built(measurements, 5, cost=lambda m: m[2], max_batch_cost=10)
    assert [batch.measurements for batch in batches] == [measurements[:2], measurements[2:]]


def test_s1_the_cost_of_a_batch_is_bounded() -> None:
    options = {"cost": lambda m: m[2], "max_batch_cost": 10}
    batches = built([(0, "a", 6), (1, "b", 5), (2, "b", 5), (3, "b", 0)], 5, **options)
    assert [batch.cost for batch in batches] == [6, 10]
    (batch,) = built([(0, "a", 0.1)] * 10, 10, cost=lambda m: m[2], max_batch_cost=1.0)
    assert batch.cost == 1.0


# Ways in.


@given(measured, st.integers(1, 5), st.integers(0, 40))
def test_one_by_one_and_all_together_are_the_same(
    measurements: list[Measured], most: int, at: int
) -> None:
    made = builder(most, lane=lambda m: m[2] % 2, cost=lambda m: m[2])
    made.extend(measurements[:at])
    for measurement in measurements[at:]:
        made.add(measurement)
    assert len(made) == len(measurements)
    assert made.build() == built(measurements, most, lane=lambda m: m[2] % 2, cost=lambda m: m[2])
    assert (len(made), made.build()) == (0, [])


def test_after_building_another_kind_of_time_may_come() -> None:
    made = builder()
    made.add((1, "a", 1))
    made.build()
    made.add((datetime(2024, 1, 1), "a", 1))
    assert len(made.build()) == 1


class Reading:
    def __init__(self, at: Any, name: Any) -> None:
        self.at, self.name = at, name


class Slot(dict[str, Any]):
    at = "an attribute that is not meant"


def test_fields_by_name_of_item_and_attribute() -> None:
    for kind in (
        Reading,
        lambda at, name: {"at": at, "name": name},
        lambda at, name: Slot(at=at, name=name),
    ):
        made = SubjectBuilder[Any](2, subject="name", event_time="at")
        made.extend([kind(2, "a"), kind(1, "a")])
        made.add(kind(0, "b"))
        assert [(batch.start, batch.end) for batch in made.build()] == [(0, 1), (2, 2)]


# Bad input.

GOOD = {"at": 1, "id": "a", "cost": 1}
BAD: list[tuple[Any, str]] = [
    ({"at": 1, "cost": 1}, "no subject: no 'id'"),
    ({"id": "a", "cost": 1}, "no event_time: no 'at'"),
    ({"at": 1, "id": "a"}, "no cost: no 'cost'"),
    ({"at": None, "id": "a", "cost": 1}, "event_time must be a number or a datetime"),
    ({"at": float("nan"), "id": "a", "cost": 1}, "event_time must be finite, not nan"),
    ({"at": float("-inf"), "id": "a", "cost": 1}, "event_time must be finite, not -inf"),
    ({"at": "now", "id": "a", "cost": 1}, "event_time must be a number or a datetime"),
    ({"at": True, "id": "a", "cost": 1}, "event_time must be a number or a datetime"),
    ({"at": datetime(2024, 1, 1), "id": "a", "cost": 1}, "naive datetimes after numbers"),
    ({"at": 1, "id": [], "cost": 1}, "subject must be hashable"),
    ({"at": 1, "id": "a", "cost": 1, "type": []}, "lane must be hashable"),
    ({"at": 1, "id": "a", "cost": -1}, "cost must be zero or more"),
    ({"at": 1, "id": "a", "cost": float("nan")}, "cost must be zero or more"),
    ({"at": 1, "id": "a", "cost": "1"}, "cost must be a number"),
    ({"at": 1, "id": "a", "cost": 11}, "it alone costs 11, and max_batch_cost is 10"),
    (5, "no subject: no 'id'"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_measurement_that_cannot_be_used_is_named_and_changes_nothing(
    bad: Any, reason: str
) -> None:
    for way in ("add", "extend", "extend after a good one"):
        made = SubjectBuilder[Any](
            5, subject="id", event_time="at", lane="type", cost="cost", max_batch_cost=10
        )
        made.add(GOOD)
        take: Any = made.add if way == "add" else made.extend
        given = {"add": bad, "extend": [bad]}.get(way, [GOOD, bad, GOOD])
        with pytest.raises(MeasurementError, match=re.escape(reason)) as caught:
            take(given)
        assert caught.value.measurement is bad
        assert repr(bad) in str(caught.value)
        (batch,) = made.build()
        assert batch.measurements == [GOOD]


@pytest.mark.parametrize("first", [UTC, None])
def test_naive_after_aware_is_named(first: Any) -> None:
    one = (datetime(2024, 1, 1, tzinfo=first), "a", 1)
    other = (datetime(2024, 1, 1, tzinfo=None if first else UTC), "a", 2)
    made = builder()
    with pytest.raises(MeasurementError) as caught:
        made.extend([one, other])
    assert caught.value.measurement is other
    assert len(made) == 0
    made.extend([one])
    with pytest.raises(MeasurementError):
        made.add(other)
    with pytest.raises(MeasurementError):
        made.extend([other])
    assert len(made) == 1


def test_what_a_callable_raises_is_reported_with_the_measurement() -> None:
    made = SubjectBuilder[Any](5, subject=lambda m: 1 / m, event_time=lambda m: m)
    with pytest.raises(MeasurementError, match="0 cannot be used: subject raised ZeroDivision"):
        made.extend([1, 0, 2])


def test_a_long_measurement_is_not_shown_whole() -> None:
    with pytest.raises(MeasurementError) as caught:
        builder().add(("x" * 10_000, "a", 1))
    assert len(str(caught.value)) < 1_000


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


def test_a_measurement_that_cannot_be_shown_is_named_by_its_type() -> None:
    with pytest.raises(MeasurementError, match="a Broken cannot be used"):
        builder().add(Broken())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be at least 1, not 0"),
        ({"max_batch_size": 2.0}, "max_batch_size must be a whole number, not 2.0"),
        ({"subject": 5}, "subject must be a callable"),
        ({"lane": b"x"}, "lane must be a callable"),
        ({"together_within": -1}, "together_within must be zero or more seconds, not -1"),
        ({"max_batch_cost": 5}, "max_batch_cost must be None if no cost is given, not 5"),
        ({"cost": "c", "max_batch_cost": 0}, "max_batch_cost must be more than zero, not 0"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        SubjectBuilder(**{"subject": "s", "event_time": "t", **arguments})
