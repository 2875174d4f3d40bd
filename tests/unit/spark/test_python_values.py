"""Columns as handlers receive them: the values that Arrow gives, but with dicts for maps."""

from __future__ import annotations

import itertools
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from dispatcher.spark._rows.formats import AsDict, AsRow
from dispatcher.spark._rows.python_values import Unreadable, values_of

Kinds = st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]
ZONES = ["UTC", "Etc/UTC", "Europe/Berlin", "America/St_Johns", "+05:45"]

CENTURIES = timedelta(days=100_000_000)
"""Nearly the longest duration that Arrow can count in microseconds."""

_whole = st.integers(-(2**31), 2**31 - 1)
_moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))


def _plain() -> Kinds:
    return st.sampled_from(
        [
            (pa.int32(), _whole),
            (pa.string(), st.text(st.characters(codec="utf-8"), max_size=3)),
            (pa.bool_(), st.booleans()),
            (pa.binary(), st.binary(max_size=3)),
            (pa.decimal128(12, 2), st.integers(-(10**6), 10**6).map(Decimal)),
            (pa.date32(), st.dates()),
            (pa.duration("us"), st.timedeltas(-CENTURIES, CENTURIES)),
            (pa.timestamp("us"), _moments),
            *(
                (pa.timestamp("us", zone), _moments.map(lambda at: at.replace(tzinfo=UTC)))
                for zone in ZONES
            ),
        ]
    )


def _nested(inner: Kinds) -> Kinds:
    def lists(one: Any) -> Any:
        kind, values = one
        return pa.list_(kind), st.lists(st.none() | values, max_size=3)

    def structs(two: Any) -> Any:
        (kind, values), (other, others) = two
        fields = st.fixed_dictionaries({"a": st.none() | values, "b": st.none() | others})
        return pa.struct([("a", kind), ("b", other)]), fields

    def maps(one: Any) -> Any:
        kind, values = one
        pairs = st.dictionaries(st.text("xyz", max_size=2), st.none() | values, max_size=3)
        return pa.map_(pa.string(), kind), pairs.map(lambda pairs: list(pairs.items()))

    return inner.map(lists) | st.tuples(inner, inner).map(structs) | inner.map(maps)


kinds = st.recursive(_plain(), _nested, max_leaves=3)


def expected(value: Any, kind: pa.DataType) -> Any:
    """Return the value that Arrow gives, with dicts for maps."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {expected(k, kind.key_type): expected(v, kind.item_type) for k, v in value}
    if pa.types.is_list(kind):
        return [expected(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: expected(value[field.name], field.type) for field in kind}
    return value


@given(kinds, st.data())
def test_a_column_has_the_values_that_arrow_gives(
    kind: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    column = pa.array(data.draw(st.lists(st.none() | kind[1], max_size=8)), kind[0])
    start = data.draw(st.integers(0, len(column)))
    part = column.slice(start, data.draw(st.integers(0, len(column) - start)))
    wanted = [expected(value, kind[0]) for value in part.to_pylist()]

    values, unreadable = values_of(part)

    assert values == wanted
    assert repr(values) == repr(wanted)  # including zones, folds and classes
    assert unreadable == {}


@pytest.mark.parametrize("zone", ZONES)
def test_an_hour_that_clocks_show_twice_is_distinguished(zone: str) -> None:
    seconds = 1_729_987_200  # 00:00 UTC of the day on which Berlin's summer time ends
    micros = [(seconds + 900 * quarter) * 1_000_000 + 7 for quarter in range(20)]
    column = pa.array(micros).cast(pa.timestamp("us", zone))

    values, _ = values_of(column)

    assert [(one, one.fold, repr(one.tzinfo)) for one in values] == [
        (one, one.fold, repr(one.tzinfo)) for one in column.to_pylist()
    ]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.date32(), 5, 3_000_000),
        (pa.timestamp("us", "UTC"), 5, 2**60),
        (pa.timestamp("us"), 5, -(2**60)),
    ],
)
def test_a_value_that_python_cannot_hold_becomes_a_text_at_any_depth(
    kind: pa.DataType, good: int, bad: int
) -> None:
    whole = pa.int32() if pa.types.is_date(kind) else pa.int64()
    times = pa.array([good, bad, None, good], whole).cast(kind)
    (held,) = values_of(times.slice(0, 1))[0]

    plain, where = values_of(times)
    structs, of_structs = values_of(pa.StructArray.from_arrays([times], ["at"]))
    lists, of_lists = values_of(pa.ListArray.from_arrays(pa.array([0, 2, 4]), times))
    maps, of_maps = values_of(pa.MapArray.from_arrays(pa.array([0, 2]), ["a", "b"], times[:2]))

    text = where[1]
    assert list(where) == list(of_structs) == [1]
    assert list(of_lists) == list(of_maps) == [0]
    assert plain == [held, text, None, held]
    assert structs == [{"at": one} for one in plain]
    assert lists == [plain[:2], plain[2:]]
    assert maps == [{"a": held, "b": text}]
    assert isinstance(plain[1], Unreadable)


def test_nothing_is_read_below_null() -> None:
    days = pa.array([3_000_000, 1], pa.int32()).cast(pa.date32())
    column = pa.StructArray.from_arrays([days], ["day"], mask=pa.array([True, False]))

    assert values_of(column) == ([None, {"day": date(1970, 1, 2)}], {})


def test_a_row_is_a_row_of_spark() -> None:
    names = ["subject", "class", "__fields"]
    batch = pa.RecordBatch.from_arrays(
        [["a", None], [1, 2], [timedelta(1), timedelta(2)]], names=names
    )
    rows = AsRow().read(batch).rows
    own = list(itertools.starmap(Row(*names), zip(*batch.to_pydict().values(), strict=True)))

    assert rows == own
    assert [type(row) for row in rows] == [Row, Row]
    assert list(map(repr, rows)) == list(map(repr, own))
    assert [row.asDict() for row in rows] == AsDict().read(batch).rows
    assert rows[0].subject == rows[0]["subject"] == "a"
    again = pickle.loads(pickle.dumps(rows))
    assert [row.asDict() for row in again] == [row.asDict() for row in own]
    rows[0].__fields__ = ["x", "y", "z"]  # this changes this row alone
    assert rows[1].asDict() == own[1].asDict()
