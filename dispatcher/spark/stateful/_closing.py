"""The function that Spark calls for each subject of `event_time_batches`, with its open batches."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from dispatcher.builders import Batch, EventTimeBuilder
from dispatcher.spark.stateful._by_subject import INVALID, ROWS, joined, received, result
from dispatcher.spark.stateful._columns import MICROSECONDS, TimeColumn, names
from dispatcher.spark.stateful._in_order import Numbers, in_order
from dispatcher.spark.stateful._parcels import Parcels, compact
from dispatcher.spark.stateful._rules import Row, Rule

_MILLISECOND = MICROSECONDS // 1000
_CLOSED = pd.Index([ROWS, "batches", "messages", "duplicates", "dropped", INVALID])
COUNTS = list(_CLOSED[1:])


@dataclass(frozen=True)
class SubjectClosing:
    """A function for applyInPandasWithState. `timer` is the clock that closes batches when no row
    comes: "processing", "watermark", or None."""

    schema: pa.Schema
    subject: str
    key: str
    time: TimeColumn
    arrival: TimeColumn | None
    rule: Rule
    timer: str | None

    @cached_property
    def _parcels(self) -> Parcels:
        """The parcels, made once in each worker rather than for each subject."""
        return Parcels(self.schema)

    def __call__(
        self, subject: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        parcels = self._parcels
        rows, invalid = received(frames, parcels)
        counts = [0, 0, 0, 0, invalid]
        closed: bytes | None = None
        if rows or state.exists:
            open_batches = OpenBatches(self, parcels, state.get[0] if state.exists else None)
            batches = open_batches.take(rows, self._now(state))
            if batches:
                closed = open_batches.closed(batches)
            counts[:4] = open_batches.counts(batches)
            self._save(open_batches, state)
        if any(counts):
            yield result(_CLOSED, closed, counts)

    def _now(self, state: GroupState) -> int | None:
        """Return Spark's time, which is the same in a replay of the micro-batch."""
        if self.arrival is None:
            return state.getCurrentProcessingTimeMs() * _MILLISECOND
        if self.timer is None:
            return None
        return state.getCurrentWatermarkMs() * _MILLISECOND

    def _save(self, open_batches: OpenBatches, state: GroupState) -> None:
        wakes = open_batches.wakes_at
        if wakes is None:
            if state.exists:
                state.remove()
            return
        state.update((open_batches.dump(),))
        # Spark calls when its time is later than the time that is set, not when it is equal.
        wakes_ms = -(-int(wakes) // _MILLISECOND) - 1
        if self.timer == "processing":
            state.setTimeoutDuration(max(1, wakes_ms - state.getCurrentProcessingTimeMs()))
        elif self.timer == "watermark":
            state.setTimeoutTimestamp(max(1, wakes_ms, state.getCurrentWatermarkMs()))


class OpenBatches:
    """A builder, with the rows that its messages stand for."""

    def __init__(self, of: SubjectClosing, parcels: Parcels, state: bytes | None) -> None:
        self._of = of
        self._parcels = parcels
        self._rows: list[pa.RecordBatch] = []
        self._table: pa.RecordBatch | None = None
        self._keys: list[Any] = []
        self._times: list[Any] = []
        fields: dict[str, Any] = {
            "key": self._keys.__getitem__,
            "event_time": self._times.__getitem__,
        }
        if state is None:
            self.builder = of.rule.builder(fields)
        else:
            saved, rows = parcels.unpack(bytes(state))
            self._hold(rows, of.time.numbers(rows.column(of.time.name)))
            which = itertools.count()
            self.builder = EventTimeBuilder.load(saved, decode=lambda _: next(which), **fields)
        self._before = (self.builder.duplicates, self.builder.dropped)

    def take(self, rows: list[pa.RecordBatch], now: float | None) -> list[Batch[Row]]:
        """Add the rows, and return the batches that are closed by then. Without a column of
        arrivals all rows arrive at `now`."""
        closed: list[Batch[Row]] = []
        if rows:
            first = len(self._keys)
            arrivals = self._hold_in_order(joined(rows))
            messages = range(first, len(self._keys))
            nows = [now] * len(messages) if arrivals is None else arrivals
            closed += self.builder.add_many(messages, nows)
        if now is not None:
            closed += self.builder.advance(now)
        return closed

    def _hold_in_order(self, rows: pa.RecordBatch) -> list[Any] | None:
        """Append rows to those that are held, in the order in which they came. Return when each
        came, if there are arrivals."""
        of = self._of
        arrivals = None
        if of.arrival is not None:
            arrivals = of.arrival.numbers(rows.column(of.arrival.name))
        times = of.time.numbers(rows.column(of.time.name))
        order = in_order(arrivals, times, rows.column(of.key), rows)
        if order is not None:
            rows, times = rows.take(pa.array(order)), times[order]
            arrivals = None if arrivals is None else arrivals[order]
        self._hold(rows, times)
        return None if arrivals is None else arrivals.tolist()

    def _hold(self, rows: pa.RecordBatch, times: Numbers) -> None:
        """Append rows, whose times are `times`, to those that are held."""
        self._rows.append(rows)
        self._keys += names(rows.column(self._of.key))
        self._times += times.tolist()

    def flush(self) -> list[Batch[Row]]:
        """Close all batches and return them."""
        return self.builder.flush()

    @property
    def wakes_at(self) -> float | None:
        """The time when a batch closes, or else when the state can be removed; None if it is
        empty."""
        deadline = self.builder.deadline
        if deadline is not None:
            return deadline  # type: ignore[no-any-return]
        until = self.builder.remembers_until
        # Duplicates are recognised up to and including that time.
        return None if until is None else until + 1

    def counts(self, batches: list[Batch[Row]]) -> list[int]:
        """Return the numbers of batches, messages, duplicates and dropped rows of this call."""
        duplicates, dropped = self._before
        return [
            len(batches),
            sum([len(batch.messages) for batch in batches]),
            self.builder.duplicates - duplicates,
            self.builder.dropped - dropped,
        ]

    def dump(self) -> bytes:
        """Return the bytes that the state keeps."""
        kept: list[Row] = []
        saved = self.builder.dump(kept.append)
        return self._parcels.pack(saved, self._taken(kept))

    def closed(self, batches: list[Batch[Row]]) -> bytes:
        """Return a parcel of closed batches, which `Batches` opens."""
        members = list(itertools.chain.from_iterable([batch.messages for batch in batches]))
        rows = self._taken(members)
        starts = [batch.start for batch in batches]
        ends = [batch.end for batch in batches]
        sizes = [len(batch.messages) for batch in batches]
        header = {
            "starts": starts,
            "ends": ends,
            "sizes": sizes,
            "ids": self._ids(starts, ends, sizes, members, rows),
        }
        return self._parcels.pack(compact(header), rows)

    def _ids(
        self,
        starts: list[Any],
        ends: list[Any],
        sizes: list[int],
        members: list[Row],
        rows: pa.RecordBatch,
    ) -> list[str]:
        """Return ids of batches, which are unique and the same in every replay: a digest of the
        representation of (subject, start, end, [(key, time), ...])."""
        subject = repr(rows.column(self._of.subject)[0].as_py())
        keys, times = self._keys, self._times
        # One text for each message takes less time than the representation of a list of tuples.
        messages = [f"({keys[row]!r}, {times[row]!r})" for row in members]
        ids, begin = [], 0
        for start, end, size in zip(starts, ends, sizes, strict=True):
            inside = ", ".join(messages[begin : begin + size])
            begin += size
            facts = f"({subject}, {start!r}, {end!r}, [{inside}])"
            ids.append(hashlib.blake2b(facts.encode(), digest_size=16).hexdigest())
        return ids

    def _taken(self, indices: list[int]) -> pa.RecordBatch:
        if self._table is None:
            self._table = joined(self._rows)
        if not indices:
            return self._parcels.none
        if _in_a_row(indices):  # the usual case, in which nothing is copied
            return self._table.slice(indices[0], len(indices))
        return self._table.take(pa.array(indices, pa.int64()))


def _in_a_row(rows: list[Row]) -> bool:
    return rows == list(range(rows[0], rows[0] + len(rows)))


class Batches:
    """Opens parcels that `OpenBatches.closed` made, with a row for each batch."""

    def __init__(self, subject: str, time: TimeColumn) -> None:
        self._subject = subject
        self._time = time

    def __call__(self, headers: list[tuple[bytes, int]], rows: pa.RecordBatch) -> pa.RecordBatch:
        batches: dict[str, list[Any]] = {"starts": [], "ends": [], "sizes": [], "ids": []}
        for header, _ in headers:
            of_one = json.loads(header)
            for name, values in batches.items():
                values += of_one[name]
        offsets = [0, *itertools.accumulate(batches["sizes"])]
        structs = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
        return pa.RecordBatch.from_arrays(
            [
                rows.column(self._subject).take(pa.array(offsets[:-1], pa.int64())),
                self._time.column(batches["starts"]),
                self._time.column(batches["ends"]),
                pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs),
                pa.array(batches["ids"], pa.string()),
            ],
            names=["subject", "start", "end", "messages", "id"],
        )
