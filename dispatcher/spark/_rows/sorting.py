"""Rows of a task in the order in which they are sent, where Spark did not sort them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 10_000
"""In a record batch."""


def sorted_batches(
    batches: Iterable[pa.RecordBatch], subject: str | None, time: str
) -> Iterator[pa.RecordBatch]:
    """All rows of `batches`, by `subject` if there is one, and by `time`, as Spark sorts: what is
    null comes first, and a time that is no number last. Rows that are alike in both stay in the
    order in which they came."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = [batch for batch in batches if batch.num_rows]
    if not rows:
        return
    table = pa.Table.from_batches(rows)
    times = table.column(time)
    keys = {"has a time": times.is_valid(), "time": times}
    if pa.types.is_floating(times.type):  # else it would be among those that are null
        keys = {"no number": pc.fill_null(pc.is_nan(times), False), **keys}
    if subject is not None:
        subjects = table.column(subject)
        keys = {"has a subject": subjects.is_valid(), "subject": subjects, **keys}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    yield from table.take(order).to_batches(ROWS_AT_ONCE)
