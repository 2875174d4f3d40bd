"""Sorts the rows of a task into the order in which they are sent, if Spark did not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 10_000
"""Rows in a record batch."""


def sorted_batches(
    batches: Iterable[pa.RecordBatch], subject: str | None, time: str
) -> Iterator[pa.RecordBatch]:
    """Return all rows of `batches`, sorted by `subject`, if given, and by `time`, as Spark sorts:
    null comes first, and NaN last. Rows that are equal in both stay in the order in which they
    came."""
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
