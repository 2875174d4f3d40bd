"""Checks, before a micro-batch is sent again, that all sequences with acknowledged rows are there.

For a sequence that is there, the digest proves which rows were sent (proof.py). But if a query has
changed so that a subject has another name, or no rows, the entry under the old name would not be
read, and its rows would be sent again under the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.spark._ledger.claims import Redis, SendClaim
from dispatcher.spark._ledger.sender import look_up
from dispatcher.spark._rows.cutting import name_of
from dispatcher.spark._rows.formats import AsTuple
from dispatcher.spark._rows.groups import Columns, groups_of
from dispatcher.spark.errors import ChangedSinkError
from dispatcher.spark.sinks._frames import column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SCHEMA = "found long"


@dataclass(frozen=True)
class ReplayFinding:
    """A task that counts sequences with acknowledged rows. Plain values."""

    claim: SendClaim
    sequence: str
    patience: float

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return one row with the count. `batches` have only the column `sequence`, each value
        once."""
        import pyarrow as pa

        claim, found = self.claim, 0
        redis = Redis(claim.place, self.patience)
        columns = Columns(self.sequence, None)
        for groups in groups_of(batches, columns, AsTuple(), in_order=True):
            entries = look_up(redis, claim, [name_of(group.sequence) for group in groups])
            found += sum(entry.acknowledged(claim.batch) > 0 for entry in entries.values())
        redis.close()
        yield pa.RecordBatch.from_pydict({"found": [found]})


def check_sequences(df: DataFrame, sequence: str | None, claim: SendClaim, patience: float) -> None:
    """Raise ChangedSinkError if a sequence with acknowledged rows has no rows in `df`."""
    if not claim.acknowledged or sequence is None:
        return
    there = df.select(column(sequence)).distinct()
    parts = there.mapInArrow(ReplayFinding(claim, sequence, patience).run, SCHEMA).collect()
    missing = claim.acknowledged - sum(part["found"] for part in parts)
    if missing > 0:
        raise ChangedSinkError(
            f"rows of {claim.acknowledged:,} subjects or lanes of micro-batch {claim.batch} of "
            f"query {claim.place.query!r} were sent before, and {missing:,} of these have no "
            "rows in it now: either a filter leaves them out, or the column is computed in "
            "another way, and rows would be sent again under another name. Let the query finish "
            "this micro-batch with the filters and columns that it began with, and change it then"
        )
