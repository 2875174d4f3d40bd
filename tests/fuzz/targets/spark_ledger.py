"""Data of Spark's sinks in Redis, of sequences and of totals: it is read, or refused with
LedgerError, and a written entry comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dispatcher.metrics._cluster.spark_totals import readings
from dispatcher.metrics._exposition import text_of
from dispatcher.metrics.readings import Readings
from dispatcher.spark._ledger.entry import LedgerEntry
from tests.fuzz.inputs import Input, of_blob


def check(data: bytes) -> None:
    given = Input(data)
    try:
        entry = LedgerEntry.read(given.blob())
    except ValueError as error:
        assert str(error)
    else:
        assert LedgerEntry.read(entry.written()) == entry
        assert entry.acknowledged(entry.batch) >= 0
    query = given.text()
    stored = {}
    while given.has_more:
        stored[given.blob()] = given.blob()
    with contextlib.suppress(ValueError, OverflowError):  # the exporter names what it cannot read
        totals = {name.decode(): float(value) for name, value in stored.items()}
        assert text_of(Readings(readings(query, totals)))


def seeds() -> Iterator[bytes]:
    for entry in (
        LedgerEntry(),
        LedgerEntry(7, 3, 1_000, 2_000, b"c0ffee"),
        LedgerEntry(7, 3, 0.5),
    ):
        yield of_blob(entry.written()) + of_blob("orders") + of_blob("rows") + of_blob("12.5")
    yield of_blob(b"") + of_blob("\udcff") + of_blob("micro_batches") + of_blob("inf")
