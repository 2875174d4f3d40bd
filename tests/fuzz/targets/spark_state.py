"""Rows in a checkpoint of Spark, as one step of a query packed them: they are refused with
ValueError, or are rows of the right columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dispatcher.spark.stateful._parcels import Parcels
from tests.fuzz.inputs import Input

PARCELS = Parcels(
    pa.schema([("id", pa.int64()), ("name", pa.string()), ("of", pa.list_(pa.int32()))])
)
_PREFIX = len(PARCELS.pack(b"", PARCELS.none)) - 4


def check(data: bytes) -> None:
    given = Input(data)
    if given.byte() % 4:  # in most cases the beginning is right
        data = PARCELS.pack(b"", PARCELS.none)[:_PREFIX] + given.rest()
    try:
        header, rows = PARCELS.unpack(data)
    except ValueError:
        return
    assert rows.schema == PARCELS.schema
    again, same = PARCELS.unpack(PARCELS.pack(header, rows))
    assert again == header
    assert same.equals(rows)


def seeds() -> Iterator[bytes]:
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "name": "a", "of": [1, 2]}, {"id": None, "name": "é" * 20, "of": None}],
        schema=PARCELS.schema,
    )
    for packed in (PARCELS.pack(b"by me", rows), PARCELS.pack(b"{}", PARCELS.none)):
        yield b"\0" + packed
        yield b"\1" + packed[_PREFIX:]
