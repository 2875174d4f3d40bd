"""Rows as bytes: other formats are refused with what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dispatcher.spark.stateful._parcels import Parcels

SCHEMA = pa.schema([("s", pa.string()), ("n", pa.int64())])
ROWS = pa.record_batch([["x", None], [1, 2]], schema=SCHEMA)


def test_e8_a_parcel_comes_back_as_it_was() -> None:
    parcels = Parcels(SCHEMA)
    for header, rows in [(b"", ROWS), (b"{}", ROWS.slice(1)), (b"head", ROWS.slice(0, 0))]:
        again, back = parcels.unpack(parcels.pack(header, rows))
        assert (again, back.to_pylist()) == (header, rows.to_pylist())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "none of this step"),
        (lambda data: b"pickle" + data, "none of this step"),
        (lambda data: b"D9" + data[2:], "another format than this version of dispatcher reads"),
        (lambda data: data[:-8], "damaged"),
        (lambda data: data[:20], "damaged"),
    ],
    ids=["empty", "foreign", "newer", "short", "shorter"],
)
def test_e8_bytes_that_are_no_parcel_are_refused(change: object, message: str) -> None:
    assert callable(change)
    data = change(Parcels(SCHEMA).pack(b"head", ROWS))
    with pytest.raises(ValueError, match=message):
        Parcels(SCHEMA).unpack(data)


def test_e8_rows_of_other_columns_are_refused() -> None:
    data = Parcels(SCHEMA).pack(b"head", ROWS)
    other = Parcels(pa.schema([("s", pa.string()), ("n", pa.int32())]))
    with pytest.raises(ValueError, match=r"rows of other columns than df has now \(s, n\)"):
        other.unpack(data)
