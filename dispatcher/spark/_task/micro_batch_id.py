"""The names of a micro-batch and its batches: in contexts, keys and messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dispatcher.spark._ledger.entry import Time
from dispatcher.spark._rows.cutting import Unit
from dispatcher.spark._rows.packs import Pack
from dispatcher.spark.context import Context, ContextOfSeveral, SubjectRows, key_of


@dataclass(frozen=True)
class MicroBatchId:
    """The facts that identify a micro-batch."""

    query: str
    batch: int
    checkpoint: str
    time_kind: str
    """The kind of the time column: timestamp, timestamp_ntz, date or number."""
    run: str = ""
    """An additional part of all keys, for one run, if a replay does not have the same batches."""
    by_subject: bool = True
    """Whether rows of a subject lie together in a batch."""

    def __str__(self) -> str:
        return f"micro-batch {self.batch} of query {self.query!r}"

    def named(self, pack: Pack) -> str:
        """Return a description of the batch `pack` for messages."""
        first, *others = {unit.sequence: unit for unit in pack.units}.values()
        whose = f"subject {first.subject!r}"
        if others:
            whose = f"{len(others) + 1} subjects, {first.subject!r} to {others[-1].subject!r},"
        return f"a batch of {sum(unit.size for unit in pack.units)} rows of {whose} in {self}"

    def key(self, unit: Unit) -> str:
        """Return a key that is the same each time `unit` is sent."""
        facts: tuple[object, ...] = (self.run, unit.sequence, unit.first, unit.last)
        facts += (unit.start, unit.size)
        if unit.records is not None:  # the other records were sent under the key of all
            facts += (tuple(unit.records),)
        return key_of(self.query, self.checkpoint, self.batch, *facts)


def context_of(
    of: MicroBatchId, units: list[Unit], lengths: list[int], attempt: int, reason: str = ""
) -> Context:
    """Return the context of a batch of `units`. `lengths` are the numbers of rows of each unit."""
    end, parts = 0, []
    for unit, length in zip(units, lengths, strict=True):
        begin, end = end, end + length
        parts.append(
            SubjectRows(
                subject=unit.subject,
                start=begin,
                end=end,
                first=_instant(unit.first, of.time_kind),
                last=_instant(unit.last, of.time_kind),
                key=of.key(unit),
                late=unit.late,
            )
        )
    alone = parts[0] if len(parts) == 1 else None
    firsts = (unit.first for unit in units if unit.first is not None)
    lasts = (unit.last for unit in units if unit.last is not None)
    kind = Context if alone is not None or not of.by_subject else ContextOfSeveral
    return kind(
        query=of.query,
        batch_id=of.batch,
        subject=None if alone is None else alone.subject,
        first=_instant(min(firsts, default=None), of.time_kind),
        last=_instant(max(lasts, default=None), of.time_kind),
        key=key_of(*(part.key for part in parts)) if alone is None else alone.key,
        attempt=attempt,
        late=any(part.late for part in parts),
        reason=reason,
        subjects=tuple(parts) if of.by_subject else (),
    )


def _instant(time: Time | None, kind: str) -> Any:
    """Return a time as the type that users see."""
    if time is None or kind == "number":
        return time
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=time)
    zone = UTC if kind == "timestamp" else None
    return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=time)
