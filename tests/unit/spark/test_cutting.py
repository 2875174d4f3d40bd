"""Laws K1 and K3 without Spark or Redis: how a task cuts rows, which it leaves out, which are
late."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.builders import SubjectBuilder
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._most_cost import MostCost
from dispatcher.spark._rows import formats as row_formats
from dispatcher.spark._rows.cutting import (
    LATE,
    NO_SUBJECT,
    NO_TIME,
    Cut,
    Unit,
    name_in_lane,
    name_of,
    too_expensive,
    units_of,
)
from dispatcher.spark._rows.formats import FORMATS, AsArrow, AsTuple, Format, OfMessages
from dispatcher.spark._rows.groups import Columns, RowGroup, Source, groups_of
from dispatcher.spark._rows.row_costs import RowCosts

Row = tuple[Any, Any, int]
"""A row: subject, time, number."""


def record_batches(rows: list[Row], sizes: list[int]) -> list[pa.RecordBatch]:
    """Return the rows in Spark's order, in record batches of any sizes."""
    ordered = sorted(rows, key=lambda row: tuple((part is not None, part) for part in row))
    table = pa.table(
        {
            "subject": pa.array([row[0] for row in ordered], pa.string()),
            "time": pa.array([row[1] for row in ordered], pa.int64()),
            "number": pa.array([row[2] for row in ordered], pa.int64()),
        }
    )
    batches: list[pa.RecordBatch] = []
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(rows):
            return batches
        batches += table.slice(start, size).combine_chunks().to_batches()
        start += size
    return batches


def groups(rows: list[Row], sizes: list[int], form: Format) -> list[RowGroup]:
    columns = Columns("subject", "time")
    read = groups_of(record_batches(rows, sizes), columns, form, in_order=True)
    return list(itertools.chain.from_iterable(read))


def price(group: RowGroup, rows: object) -> RowCosts:
    return RowCosts({"": 1.0})


def units(
    rows: list[Row],
    sizes: list[int],
    cut: Cut,
    entries: dict[bytes, LedgerEntry] | None = None,
    batch: int = 0,
) -> list[Unit]:
    """Return the units that are to be sent."""
    all_of_them = all_units(rows, sizes, cut, entries, batch)
    return [unit for unit in all_of_them if not unit.acknowledged]


def all_units(
    rows: list[Row],
    sizes: list[int],
    cut: Cut,
    entries: dict[bytes, LedgerEntry] | None = None,
    batch: int = 0,
) -> list[Unit]:
    form = AsTuple()
    return [
        unit
        for group in groups(rows, sizes, form)
        for unit in units_of(
            group,
            cut,
            (entries or {}).get(name_of(group.sequence), LedgerEntry()),
            batch,
            price,
            form,
        )
    ]


some_rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12)), min_size=1, max_size=60
).map(lambda rows: [(*row, number) for number, row in enumerate(rows)])
some_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(some_rows, some_sizes, st.integers(1, 7), st.sampled_from(sorted(FORMATS)))
def test_all_rows_of_a_subject_are_in_one_group_for_any_record_batches(
    rows: list[Row], sizes: list[int], most: int, form: str
) -> None:
    made = FORMATS[form]()
    found = groups(rows, sizes, made)

    assert [group.sequence for group in found] == sorted({row[0] for row in rows})
    for group in found:
        dicts = row_formats.dicts(made.records(Source(group.sources, range(group.size)).batch()))
        mine = sorted(row for row in rows if row[0] == group.sequence)
        assert [tuple(one.values()) for one in dicts] == mine
        assert np.concatenate(group.times).tolist() == [row[1] for row in mine]
        assert group.size == len(mine)


def test_the_hour_that_clocks_show_twice_makes_two_subjects() -> None:
    twice = [1_729_989_000_000_000, 1_729_992_600_000_000]  # 02:30 in Berlin, and an hour later
    born = pa.array(twice, pa.timestamp("us", "Europe/Berlin"))
    batches = [
        pa.RecordBatch.from_arrays([born.slice(place, 1), pa.array([1])], names=["born", "time"])
        for place in (0, 1)
    ]
    read = groups_of(batches, Columns("born", "time"), AsTuple(), in_order=True)

    assert [group.size for some in read for group in some] == [1, 1]


@given(some_rows, some_sizes, st.integers(1, 7))
def test_s1_s2_a_subject_is_cut_in_the_same_way_as_by_the_subject_builder(
    rows: list[Row], sizes: list[int], most: int
) -> None:
    expected = []
    for subject in sorted({row[0] for row in rows}):
        builder = SubjectBuilder[Row](
            most, subject=lambda row: row[0], event_time=lambda row: row[1]
        )
        builder.extend(sorted(row for row in rows if row[0] == subject))
        expected += [batch.measurements for batch in builder.build()]

    cut = units(rows, sizes, Cut(most))

    assert [unit.rows for unit in cut] == expected
    assert all(unit.first == unit.rows[0][1] and unit.last == unit.rows[-1][1] for unit in cut)


@given(some_rows, some_sizes, st.integers(1, 7), st.data())
def test_k3_a_replay_has_the_same_batches_without_the_acknowledged_ones(
    rows: list[Row], sizes: list[int], most: int, data: st.DataObject
) -> None:
    before = {name_of(s): LedgerEntry(4, 9, None, data.draw(st.integers(0, 12))) for s in "ab"}
    first = units(rows, sizes, Cut(most), before, batch=5)
    entries = dict(before)
    left = []
    for _, of_one in itertools.groupby(first, key=lambda unit: unit.sequence):
        mine = list(of_one)
        done = data.draw(st.integers(0, len(mine)))
        for unit in mine[:done]:
            entries[unit.sequence] = unit.entry
        left += mine[done:]

    again = units(rows, [7], Cut(most), entries, batch=5)

    assert [(one.rows, one.late, one.start, one.entry) for one in again] == [
        (one.rows, one.late, one.start, one.entry) for one in left
    ]


@given(some_rows, st.integers(1, 7), st.integers(1, 7), st.data())
def test_k3_a_replay_with_another_batch_size_sends_each_row_once(
    rows: list[Row], most: int, then: int, data: st.DataObject
) -> None:
    before = {name_of(s): LedgerEntry(4, 9, None, data.draw(st.integers(0, 12))) for s in "ab"}
    entries, sent = dict(before), []
    for _, of_one in itertools.groupby(
        units(rows, [5], Cut(most), before, batch=5), key=lambda unit: unit.sequence
    ):
        mine = list(of_one)
        for unit in mine[: data.draw(st.integers(0, len(mine)))]:
            entries[unit.sequence] = unit.entry
            sent.append(unit)

    sent += units(rows, [7], Cut(then, refuse_late=data.draw(st.booleans())), entries, batch=5)

    for subject in {row[0] for row in rows}:
        mine = [unit for unit in sent if unit.subject == subject]
        until = before.get(name_of(subject), LedgerEntry()).until or 0
        ordered = sorted(row for row in rows if row[0] == subject)
        late = [row for row in ordered if row[1] < until]
        assert [row for unit in mine for row in unit.rows] == [*late, *ordered[len(late) :]]
        assert [unit.start for unit in mine] == [
            sum(one.size for one in mine[:place]) for place in range(len(mine))
        ]


@given(some_rows, some_rows, st.integers(1, 7))
def test_k1_exactly_the_rows_older_than_those_that_were_sent_are_late(
    earlier: list[Row], rows: list[Row], most: int
) -> None:
    entries = {unit.sequence: unit.entry for unit in units(earlier, [5], Cut(most), batch=1)}
    until = {row[0]: max(r[1] for r in earlier if r[0] == row[0]) for row in earlier}

    for unit in units(rows, [5], Cut(most), entries, batch=2):
        for subject, time, _ in unit.rows:
            assert unit.late == (time < until.get(subject, -1))
    refused = units(rows, [5], Cut(most, refuse_late=True), entries, batch=2)
    assert all((unit.refused == LATE) == unit.late for unit in refused)
    kept = {unit.sequence: unit.entry.until for unit in refused}
    for sequence, reached in kept.items():
        subject = sequence.decode()[1:]
        if subject in until:
            assert reached is not None
            assert reached >= until[subject]


def test_rows_without_subject_or_time_are_refused_and_counted() -> None:
    rows: list[Row] = [(None, 1, 0), (None, 2, 1), ("a", None, 2), ("a", 1, 3), ("b", 1, 4)]

    found = [(unit.sequence, unit.refused, unit.size) for unit in units(rows, [2], Cut(10))]

    assert found == [
        (b"-", NO_SUBJECT, 2),
        (b"=a", NO_TIME, 1),
        (b"=a", "", 1),
        (b"=b", "", 1),
    ]


def test_a_time_that_is_nan_counts_as_no_time() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"subject": ["a"] * 4, "time": [None, 1.0, 2.0, float("nan")]}
    )
    columns = Columns("subject", "time")
    (group,) = list(groups_of([batch], columns, AsTuple(), in_order=True))[-1]

    found = [
        (unit.refused, unit.size)
        for unit in units_of(group, Cut(10), LedgerEntry(), 0, price, AsTuple())
    ]

    assert found == [(NO_TIME, 1), ("", 2), (NO_TIME, 1)]


@given(some_rows, st.integers(1, 5), st.floats(0.5, 4))
def test_a_batch_costs_no_more_than_its_bound(rows: list[Row], most: int, limit: float) -> None:
    cut = Cut(most, MostCost.of(max(limit, 1.0)))

    for unit in units(rows, [6], cut):
        assert unit.cost == len(unit.rows)
        assert unit.cost <= max(limit, 1.0)


def test_a_batch_costs_no_more_than_its_bound_in_any_order_of_addition() -> None:
    of_rows = [0.3, 0.7, 1.1, 0.7, 1.1, 0.05, 1.1, 0.7, 0.7, 0.05, 0.2, 0.7, 0.1, 1.1, 0.1, 0.7]
    of_rows += [0.2, 0.1, 0.3, 0.7]
    assert np.sum(of_rows[:-1]) > 10.0, "added one after the other they are 10"
    (group,) = groups([("a", place, place) for place in range(20)], [20], AsTuple())

    found = units_of(
        group,
        Cut(500, MostCost.of(10.0)),
        LedgerEntry(),
        0,
        lambda group, rows: RowCosts({"": np.array(of_rows)}),
        AsTuple(),
    )

    assert [(unit.size, unit.cost) for unit in found] == [(19, 10.0), (1, 0.7)]


@pytest.mark.parametrize("costs", [[2.0, 9.0, 2.0, 2.0, 9.0], 9.0])
@pytest.mark.parametrize("same_subject", [True, False])
def test_a_row_that_costs_more_than_a_batch_may_is_refused_at_its_place(
    costs: Any, same_subject: bool
) -> None:
    (group,) = groups([("a", place, place) for place in range(5)], [2], AsTuple())
    group.subjects = ["a"] * 5
    found = units_of(
        group,
        Cut(10, MostCost.of(5.0), same_subject=same_subject),
        LedgerEntry(),
        0,
        lambda group, rows: RowCosts({"": np.array(costs) if isinstance(costs, list) else costs}),
        AsTuple(),
    )

    sent = [([row[2] for row in unit.rows], unit.refused) for unit in found]
    reason = too_expensive(9.0, 5.0, "")
    if isinstance(costs, list):
        assert sent == [([0], ""), ([1], reason), ([2, 3], ""), ([4], reason)]
    else:
        assert sent == [([place], reason) for place in range(5)]


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a =b", "c"), ("a", "b =c")), ((None, "c"), ("", "c")), (("a", None), ("a", "-"))],
)
def test_no_two_subjects_of_lanes_share_a_name_in_redis(
    one: tuple[Any, Any], other: tuple[Any, Any]
) -> None:
    assert name_in_lane(*one) != name_in_lane(*other)


def test_a_lane_is_cut_in_the_same_way_as_by_the_subject_builder() -> None:
    rows: list[Row] = [(subject, at, n) for n, (subject, at) in enumerate(
        itertools.product("aabbbc", range(4))
    )]  # fmt: skip
    ordered = sorted(rows, key=lambda row: (row[1], row[0], row[2]))
    batch = pa.RecordBatch.from_pylist(
        [{"subject": subject, "time": at, "number": n} for subject, at, n in ordered]
    )
    columns = Columns(None, "time", subject="subject")
    (group,) = list(groups_of([batch], columns, AsTuple(), in_order=True))[-1]
    builder = SubjectBuilder[Row](4, subject=lambda row: row[0], event_time=lambda row: row[1])
    builder.extend(ordered)

    cut = units_of(group, Cut(4, same_subject=False), LedgerEntry(), 0, price, AsTuple())

    assert [unit.rows for unit in cut] == [one.measurements for one in builder.build()]


def lane_units(
    rows: list[Row], remembered: dict[bytes, LedgerEntry], batch: int, **options: Any
) -> list[Unit]:
    """Return the units to be sent of one lane, in which each subject has late rows of its own."""
    ordered = sorted(rows, key=lambda row: (row[1], row[0], row[2]))
    table = pa.Table.from_pylist([dict(zip(("s", "t", "n"), row, strict=True)) for row in ordered])
    columns = Columns(None, "t", subject="s")
    (group,) = list(groups_of(table.to_batches(5), columns, AsTuple(), in_order=True))[-1]
    cut = Cut(4, same_subject=False, late_by_subject=True, **options)
    entry = remembered.get(b"-", LedgerEntry())
    of_subjects = {
        one: remembered.get(name_in_lane(None, one), LedgerEntry()) for one in set(group.subjects)
    }
    units = units_of(group, cut, entry, batch, price, AsTuple(), of_subjects)
    return [unit for unit in units if not unit.acknowledged]


def written_down(units: list[Unit], remembered: dict[bytes, LedgerEntry]) -> None:
    for unit in units:
        remembered |= {unit.sequence: unit.entry} | unit.of_subjects


@given(some_rows, some_rows, st.booleans(), st.data())
def test_k8_a_row_in_a_lane_is_late_if_a_newer_one_of_its_subject_was_sent(
    earlier: list[Row], rows: list[Row], refuse: bool, data: st.DataObject
) -> None:
    remembered: dict[bytes, LedgerEntry] = {}
    written_down(lane_units(earlier, remembered, 1), remembered)
    until = {row[0]: max(r[1] for r in earlier if r[0] == row[0]) for row in earlier}

    units = lane_units(rows, remembered, 2, refuse_late=refuse)
    for unit in units:
        assert all(unit.late == (time < until.get(one, -1)) for one, time, _ in unit.rows)
    assert sorted(row for unit in units for row in unit.rows) == sorted(rows)
    sent = data.draw(st.integers(0, len(units)))
    written_down(units[:sent], remembered)

    again = lane_units(rows, remembered, 2, refuse_late=refuse)
    assert [(one.rows, one.late, one.start, one.entry, one.of_subjects) for one in again] == [
        (one.rows, one.late, one.start, one.entry, one.of_subjects) for one in units[sent:]
    ]
    written_down(again, remembered)
    for subject, time, _ in () if refuse else rows:
        reached = remembered[name_in_lane(None, subject)].until
        assert reached is not None
        assert reached >= max(time, until.get(subject, 0))


def test_in_no_order_each_record_batch_is_cut_as_it_comes() -> None:
    batches = record_batches([("a", n, n) for n in range(10)], [6, 4])
    columns = Columns(None, None)
    read = groups_of(batches, columns, AsTuple(), in_order=False)
    cut = Cut(4, same_subject=False, in_order=False)

    sizes = [
        unit.size
        for some in read
        for group in some
        for unit in units_of(group, cut, LedgerEntry(), 0, price, AsTuple())
    ]

    assert sizes == [4, 2, 4]


def test_messages_have_the_requested_form() -> None:
    batch = pa.RecordBatch.from_pylist(
        [
            {"subject": "a", "start": 1, "end": 5, "messages": [{"n": 1}, {"n": 2}]},
            {"subject": "a", "start": 7, "end": 9, "messages": [{"n": 3}]},
        ]
    )
    columns = Columns("subject", "start", "end", messages="messages")
    for name, expected in (("tuple", [(1,), (2,)]), ("dict", [{"n": 1}, {"n": 2}])):
        form = OfMessages("messages", FORMATS[name]())
        (group,) = list(groups_of([batch], columns, form, in_order=True))[-1]

        def costs(group: RowGroup, rows: Any, form: OfMessages = form) -> Any:
            return RowCosts({"": np.array(form.costs(rows, 2.0))})

        first, second = units_of(group, Cut(1, each=True), LedgerEntry(), 0, costs, form)

        assert (first.rows, first.first, first.last, first.cost) == (expected, 1, 5, 4.0)
        assert (second.first, second.last, second.cost) == (7, 9, 2.0)


def test_arrow_rows_stay_arrow() -> None:
    form = AsArrow()
    (group,) = groups([("a", n, n) for n in range(7)], [3], form)

    cut = list(units_of(group, Cut(5), LedgerEntry(), 0, price, form))

    assert [type(unit.rows) for unit in cut] == [pa.RecordBatch] * 2
    assert [unit.rows.num_rows for unit in cut] == [5, 2]


@pytest.mark.parametrize(
    "entry",
    [
        LedgerEntry(),
        LedgerEntry(7, 3, None, 5),
        LedgerEntry(7, 3, 1.5, 2e300),
        LedgerEntry(0, 0, -4, 2**60),
    ],
)
def test_an_entry_is_read_as_it_was_written(entry: LedgerEntry) -> None:
    assert LedgerEntry.read(entry.written()) == entry
