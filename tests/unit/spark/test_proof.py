"""Law K3 without Spark or Redis: the ledger proves that a replay leaves out exactly what was
acknowledged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._rows.cutting import Cut, OtherRowsError, Unit, units_of
from dispatcher.spark._rows.formats import FORMATS, AsDict, AsTuple, OfMessages
from dispatcher.spark._rows.groups import Columns, RowGroup, groups_of
from dispatcher.spark._rows.row_costs import RowCosts

COLUMNS = Columns("subject", "time", hash="hash", added=("hash",))

Row = tuple[int, int]
"""The time and the hash of a row."""


def price(group: RowGroup, rows: object) -> RowCosts:
    return RowCosts({"": 1.0})


def cut(rows: list[Row], most: int, entry: LedgerEntry, size: int = 5) -> list[Unit]:
    """Return the units to be sent of the rows of one subject in micro-batch 7."""
    table = pa.table(
        {
            "subject": ["a"] * len(rows),
            "time": pa.array([time for time, _ in rows], pa.int64()),
            "hash": pa.array([hash_ for _, hash_ in rows], pa.int64()),
        }
    )
    (group,) = [
        group
        for some in groups_of(table.to_batches(size), COLUMNS, AsTuple(), in_order=True)
        for group in some
    ]
    units = units_of(group, Cut(most), entry, 7, price, AsTuple())
    return [unit for unit in units if not unit.acknowledged]


some_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)), max_size=12)
before = st.just(LedgerEntry(6, 3, None, 2))


@given(some_rows.filter(bool), st.integers(1, 5), st.integers(1, 5), before, st.data())
def test_k3_acknowledged_rows_are_recognized_with_any_size_of_batches(
    rows: list[Row], most: int, then: int, entry: LedgerEntry, data: st.DataObject
) -> None:
    rows = sorted(rows)
    first = cut(rows, most, entry)
    done = data.draw(st.sampled_from(first))

    again = cut(rows, then, done.entry, size=2)

    assert sum(unit.size for unit in again) == len(rows) - done.entry.rows
    assert not again or again[-1].entry.proof == first[-1].entry.proof


@given(some_rows.filter(bool), st.integers(1, 5), st.data())
def test_k3_other_rows_are_not_mistaken_for_acknowledged_ones(
    rows: list[Row], most: int, data: st.DataObject
) -> None:
    times: dict[
        int, int
    ] = {}  # the hash is one of the whole row: a row of another time has another
    rows = sorted((times.setdefault(hash_, time), hash_) for time, hash_ in rows)
    done = data.draw(st.sampled_from(cut(rows, most, LedgerEntry()))).entry
    place = data.draw(st.integers(0, done.rows - 1))
    time, _ = rows[place]
    strange = next(hash_ for hash_ in range(len(rows) + 1) if hash_ not in times)
    changed = list(rows)
    how = data.draw(st.sampled_from(["dropped", "changed", "new"]))
    if how == "dropped":
        del changed[place]
    elif how == "changed":
        changed[place] = (time, strange)
    else:
        changed.insert(place, (time, strange))
    if changed[: done.rows] == rows[: done.rows]:  # an equal row has taken its place
        return

    if changed:
        with pytest.raises(OtherRowsError):
            cut(changed, data.draw(st.integers(1, 5)), done)


def test_rows_after_the_acknowledged_ones_may_change() -> None:
    rows = [(1, 10), (2, 20), (3, 30), (4, 40)]
    first, *_ = cut(rows, 2, LedgerEntry())

    assert [unit.rows for unit in cut([*rows[:2], (9, 90)], 2, first.entry)] == [[("a", 9)]]


LAST = datetime(9999, 12, 31, 23, tzinfo=UTC)
BEYOND = 253_402_300_800_000_000
"""The first microsecond of the year 10000."""


def one_group(batch: pa.RecordBatch, form: Any, columns: Columns) -> RowGroup:
    (group,) = list(groups_of([batch], columns, form, in_order=True))[-1]
    return group


@pytest.mark.parametrize("most", [1, 2, 10])
@pytest.mark.parametrize("same_subject", [True, False])
@pytest.mark.parametrize("form", ["row", "dict", "tuple"])
def test_only_rows_that_python_cannot_hold_are_refused_with_their_names(
    most: int, same_subject: bool, form: str
) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "subject": ["a"] * 5,
            "time": [1, 2, 3, 4, 5],
            "until": pa.array([0, BEYOND, 0, 0, BEYOND + 1], pa.timestamp("us", "UTC")),
        }
    )
    made = FORMATS[form]()
    columns = Columns("subject", "time", subject=None if same_subject else "subject")
    group = one_group(batch, made, columns)
    shape = Cut(most, same_subject=same_subject)

    units = list(units_of(group, shape, LedgerEntry(), 0, price, made))

    refused = [unit for unit in units if unit.refused]
    assert [unit.refused for unit in refused] == [
        f"its until (10000-01-01 00:00:00.00000{n}Z) is beyond what Python can hold" for n in (0, 1)
    ]
    assert [unit.size for unit in refused] == [1, 1]
    sent = [unit for unit in units if not unit.refused]
    times = [time for unit in sent for time in unit.source.batch().column("time").to_pylist()]
    assert times == [1, 3, 4]
    assert [unit.entry.rows for unit in units][-1] == 5


def test_rows_with_times_that_python_cannot_hold_are_refused_in_every_form() -> None:
    times = pa.array([-70_000_000_000_000_000, 0, BEYOND - 1, BEYOND], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict({"subject": ["a"] * 4, "time": times})
    made = FORMATS["arrow"]()
    group = one_group(batch, made, Columns("subject", "time"))

    units = list(units_of(group, Cut(10), LedgerEntry(), 0, price, made))

    assert [(bool(unit.refused), unit.size) for unit in units] == [(True, 1), (True, 1), (False, 2)]


def test_a_message_that_python_cannot_hold_refuses_its_batch() -> None:
    kind = pa.list_(pa.struct([("n", pa.int64()), ("day", pa.date32())]))
    days = [[{"n": 1, "day": 0}], [{"n": 2, "day": 0}, {"n": 3, "day": 5_000_000}]]
    batch = pa.RecordBatch.from_pydict(
        {"subject": ["a"] * 2, "start": [1, 2], "end": [3, 4], "messages": pa.array(days, kind)}
    )
    made = OfMessages("messages", AsDict())
    columns = Columns("subject", "start", "end", messages="messages")
    group = one_group(batch, made, columns)

    found = [
        (unit.refused, unit.rows)
        for unit in units_of(group, Cut(1, each=True), LedgerEntry(), 0, price, made)
        if not unit.refused
    ]

    assert found == [("", [{"n": 1, "day": date(1970, 1, 1)}])]


def test_a_source_keeps_its_rows_if_a_handler_changes_them() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"subject": ["a"] * 4, "time": [1, 2, 3, 4], "tags": [["x"], ["y"], [], None]}
    )
    made = AsDict()
    group = one_group(batch, made, Columns("subject", "time"))
    first, second = units_of(group, Cut(2), LedgerEntry(), 0, price, made)
    first.rows[0]["tags"].clear()
    first.rows.clear()

    assert made.of_records(made.records(first.source.batch()))[0]["tags"] == ["x"]
    assert made.of_records(second.source.last(1).batch()) == [
        {"subject": "a", "time": 4, "tags": None}
    ]


def test_maps_are_dicts_wherever_they_are() -> None:
    pairs = pa.map_(pa.string(), pa.int64())
    nested = pa.struct([("inner", pa.list_(pairs)), ("plain", pa.int64())])
    batch = pa.RecordBatch.from_pydict(
        {
            "top": pa.array([[("a", 1)]], pairs),
            "deep": pa.array([{"inner": [[("b", 2)], None], "plain": 3}], nested),
            "of": pa.array([[("c", {"inner": None, "plain": 4})]], pa.map_(pa.string(), nested)),
        }
    )

    (row,) = AsDict().read(batch).rows

    assert row == {
        "top": {"a": 1},
        "deep": {"inner": [{"b": 2}, None], "plain": 3},
        "of": {"c": {"inner": None, "plain": 4}},
    }


def test_in_nested_values_only_those_that_python_cannot_hold_become_texts() -> None:
    far = pa.timestamp("us", "UTC")
    one = pa.struct([("at", far), ("n", pa.int64())])
    kind = pa.struct([("listed", pa.list_(one)), ("mapped", pa.map_(pa.string(), far))])
    deep = [
        {"listed": [{"at": 0, "n": 1}, {"at": BEYOND, "n": 2}], "mapped": [("a", 0)]},
        {"listed": None, "mapped": [("b", BEYOND), ("c", None)]},
        {"listed": [], "mapped": [("d", 0)]},
    ]
    batch = pa.RecordBatch.from_pydict({"deep": pa.array(deep, kind)})

    read = AsDict().read(batch)
    first, second, third = [row["deep"] for row in read.rows]

    early, text = datetime(1970, 1, 1, tzinfo=UTC), "10000-01-01 00:00:00.000000Z"
    assert first == {
        "listed": [{"at": early, "n": 1}, {"at": text, "n": 2}],
        "mapped": {"a": early},
    }
    assert second == {"listed": None, "mapped": {"b": text, "c": None}}
    assert third == {"listed": [], "mapped": {"d": early}}
    reason = f"its deep ({text}) is beyond what Python can hold"
    assert read.unreadable == {0: reason, 1: reason}
    assert AsDict().read(batch.slice(1)).rows == read.rows[1:]


def test_a_proof_is_the_same_in_whatever_steps_rows_are_added() -> None:
    from dispatcher.spark._ledger.proof import NONE, Proof

    hashes = np.arange(6)
    whole, parts = Proof(hashes), Proof(hashes)
    assert whole.digest() == NONE
    whole.add(range(6))
    for places in ([0, 1], range(2, 5), [5]):
        parts.add(places)
    assert whole.digest() == parts.digest() != NONE
