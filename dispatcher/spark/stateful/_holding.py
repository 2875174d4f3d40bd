"""The function that Spark calls for each subject of `hold_back`, with its held rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from dispatcher.spark.stateful._by_subject import INVALID, ROWS, joined, received, result
from dispatcher.spark.stateful._columns import TimeColumn
from dispatcher.spark.stateful._parcels import Parcels, compact

LATE_COLUMN = "dispatcher_late"
_RELEASED = pd.Index([ROWS, "released", "late", INVALID])
COUNTS = list(_RELEASED[1:])


@dataclass(frozen=True)
class SubjectHolding:
    """A function for applyInPandasWithState. Processing times are in milliseconds."""

    schema: pa.Schema
    time: TimeColumn
    delay_ms: int
    forget_after_ms: int | None

    @cached_property
    def _parcels(self) -> Parcels:
        """The parcels, made once in each worker rather than for each subject."""
        return Parcels(self.schema)

    def __call__(
        self, subject: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        parcels = self._parcels
        rows, invalid = received(frames, parcels)
        counts = [0, 0, invalid]
        out: bytes | None = None
        if rows or state.exists:
            now = state.getCurrentProcessingTimeMs()
            held = HeldRows(self, parcels, bytes(state.get[0]) if state.exists else None)
            held.take(rows, now)
            late, on_time = held.release(now)
            if late or on_time:
                out = held.packed(late, on_time)
            counts[:2] = len(late) + len(on_time), len(late)
            self._save(held, state, now)
        if any(counts):
            yield result(_RELEASED, out, counts)

    def _save(self, held: HeldRows, state: GroupState, now: int) -> None:
        if held.next_due is not None:
            wakes = held.next_due
        elif self.forget_after_ms is None:
            state.update((held.dump(),))
            return
        else:
            wakes = held.seen + self.forget_after_ms
            if wakes <= now:
                if state.exists:
                    state.remove()
                return
        state.update((held.dump(),))
        # Spark calls when its time is later than the time that is set, not when it is equal.
        state.setTimeoutDuration(max(1, wakes - 1 - now))


class HeldRows:
    """Held rows with the time when each is due, and the latest time that was released."""

    def __init__(self, of: SubjectHolding, parcels: Parcels, state: bytes | None) -> None:
        self._of = of
        self._parcels = parcels
        self.mark: float | None = None
        self.seen = 0
        self._rows = parcels.none
        due: list[int] = []
        if state is not None:
            header, self._rows = parcels.unpack(state)
            saved = json.loads(header)
            self.mark, self.seen, due = saved["mark"], saved["seen"], saved["due"]
        self._due = np.array(due, dtype=np.int64)

    def take(self, rows: list[pa.RecordBatch], now: int) -> None:
        """Add rows that came `now`."""
        if rows:
            self.seen = now
            new = joined(rows)
            due = np.full(new.num_rows, now + self._of.delay_ms, dtype=np.int64)
            self._rows = joined([self._rows, new]) if self._rows.num_rows else new
            self._due = np.concatenate([self._due, due])

    def release(self, now: int) -> tuple[list[int], list[int]]:
        """Return the places of the rows that are released, late rows and others: those that are
        due, and those that are earlier than these."""
        time = self._of.time
        times = time.numbers(self._rows.column(time.name))
        nothing = np.zeros(len(times), dtype=bool)
        late = nothing if self.mark is None else times < self.mark
        due = times[~late & (self._due <= now)]
        if len(due) and (self.mark is None or due.max() > self.mark):
            self.mark = due.max().item()
        on_time = nothing if self.mark is None else ~late & (times <= self.mark)
        self._kept = ~(late | on_time)
        return self._in_order(late, times), self._in_order(on_time, times)

    @property
    def next_due(self) -> int | None:
        """The time when the next of the rows that stay is due; None if no row stays."""
        due = self._due[self._kept]
        return int(due.min()) if len(due) else None

    def everything(self) -> tuple[list[int], list[int]]:
        """Release all rows, with the same result as `release`."""
        return self.release(int(self._due.max())) if len(self._due) else ([], [])

    def packed(self, late: list[int], on_time: list[int]) -> bytes:
        """Return a parcel of rows, which `released` opens."""
        rows = self._rows.take(pa.array(late + on_time, pa.int64()))
        return self._parcels.pack(json.dumps(len(late)).encode(), rows)

    def dump(self) -> bytes:
        """Return the bytes that the state keeps."""
        header = {"mark": self.mark, "seen": self.seen, "due": self._due[self._kept].tolist()}
        rows = self._rows.filter(pa.array(self._kept))
        return self._parcels.pack(compact(header), rows)

    @staticmethod
    def _in_order(which: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> list[int]:
        (indices,) = np.nonzero(which)
        ordered = indices[np.argsort(times[indices], kind="stable")]
        return ordered.tolist()  # type: ignore[no-any-return]


def released(headers: list[tuple[bytes, int]], rows: pa.RecordBatch) -> pa.RecordBatch:
    """Open parcels that `HeldRows.packed` made."""
    flags: list[bool] = []
    for header, size in headers:
        late = int(header)
        flags += [True] * late + [False] * (size - late)
    return pa.RecordBatch.from_arrays(
        [*rows.columns, pa.array(flags, pa.bool_())],
        schema=rows.schema.append(pa.field(LATE_COLUMN, pa.bool_())),
    )
