"""The batches of one subject at chosen processing times, compared with a plain builder of the same
spans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import BinaryType, StructType

from dispatcher.spark.stateful._by_subject import ROWS, SUBJECT, Opening
from dispatcher.spark.stateful._closing import Batches, SubjectClosing
from dispatcher.spark.stateful._columns import TimeColumn
from dispatcher.spark.stateful._options import EventTimeOptions
from dispatcher.spark.stateful._parcels import Parcels
from dispatcher.spark.stateful._rules import rule_of
from tests.spark import plainly

Message = tuple[str, int]
"""A message: its key and its event time, in whole units of the time column."""

START = datetime(2024, 10, 27, tzinfo=UTC)
CLOCK = pa.timestamp("us", "UTC")
KINDS = [pa.int64(), CLOCK]


class Subject:
    """Plays Spark for one subject: calls the step when rows come or its timeout has passed."""

    def __init__(self, kind: pa.DataType, window: float, timeout: float) -> None:
        self.kind = kind
        self.schema = pa.schema([("s", pa.string()), ("k", pa.string()), ("t", kind)])
        self.time = TimeColumn("t", kind)
        options = EventTimeOptions(subject="s", key="k", time="t", window=window, timeout=timeout)
        self.step = SubjectClosing(
            schema=self.schema,
            subject="s",
            key="k",
            time=self.time,
            arrival=None,
            rule=rule_of(self.time, None, options),
            timer="processing",
        )
        self.state: bytes | None = None
        self.wakes_ms: int | None = None

    def row(self, message: Message) -> dict[str, Any]:
        key, time = message
        at = START + timedelta(seconds=time) if self.time.is_clock else time
        return {"s": "x", "k": key, "t": at}

    def sees(self, now: datetime, *messages: Message) -> list[plainly.Batch]:
        """Run a micro-batch that begins at `now`, and return the batches that come out."""
        now_ms = round(now.timestamp() * 1000)
        timed_out = self.wakes_ms is not None and self.wakes_ms < now_ms
        if not messages and not timed_out:
            return []
        rows = pa.RecordBatch.from_pylist(list(map(self.row, messages)), schema=self.schema)
        parcel = Parcels(self.schema).pack(b"", rows)
        frames = [pd.DataFrame({SUBJECT: ["x"], ROWS: [parcel]})] if messages else []
        state: Any = GroupState(
            (self.state,),  # type: ignore[arg-type]
            now_ms,
            GroupState.NO_TIMESTAMP,
            "ProcessingTimeTimeout",
            timed_out,
            False,
            self.state is not None,
            False,
            False,
            GroupState.NO_TIMESTAMP,
            b"",
            StructType().add("state", BinaryType()),
        )
        steps = self.step(("x",), iter(frames), state)
        # All of one type: the oldest pandas asks numpy for another's by a name that is deprecated.
        none = pd.DataFrame({ROWS: []}, dtype=object)
        out = pd.concat([none, *(step[[ROWS]] for step in steps)])
        self.state = state.get[0] if state.exists else None
        self.wakes_ms = state._timeout_timestamp if state.exists else None
        packed = pa.RecordBatch.from_pandas(out, pa.schema([(ROWS, pa.binary())]))
        opened = Opening(self.schema, Batches("s", self.time))(iter([packed]))
        return [
            (one["subject"], one["start"], one["end"], one["messages"])
            for batches in opened
            for one in batches.to_pylist()
        ]


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def names(batches: list[plainly.Batch]) -> list[list[str]]:
    return [[one["k"] for one in messages] for *_, messages in batches]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("later", "is_duplicate"), [(0.85, True), (50.8, True), (50.801, False)])
def test_e4_duplicates_of_a_closed_batch_are_found_for_window_and_timeout_in_any_unit(
    kind: pa.DataType, later: float, is_duplicate: bool
) -> None:
    subject = Subject(kind, window=50, timeout=0.8)
    subject.sees(START, ("a", 1), ("b", 5))
    assert names(subject.sees(after(0.8))) == [["a", "b"]]
    assert subject.sees(after(0.8 + later), ("b", 5), ("c", 6)) == []
    closed = subject.sees(after(1.6 + later))
    assert names(closed) == [["c"] if is_duplicate else ["b", "c"]]


def test_a_subject_is_forgotten_with_its_duplicates() -> None:
    subject = Subject(pa.int64(), window=50, timeout=0.8)
    subject.sees(START, ("a", 1))
    subject.sees(after(30))  # closed as of 0.8 s
    assert subject.sees(after(51.6)) == []
    assert subject.state is not None
    assert subject.sees(after(51.601)) == []
    assert subject.state is None


@pytest.mark.parametrize("window", [2**63 - 1, 1e308], ids=str)
def test_a_window_without_an_end_closes_by_its_timeout(window: float) -> None:
    subject = Subject(pa.int64(), window=window, timeout=0.8)
    subject.sees(START, ("a", 1), ("b", 10**6))
    assert subject.sees(after(0.799)) == []
    assert names(subject.sees(after(0.8))) == [["a", "b"]]
    assert subject.wakes_ms is not None
    assert subject.wakes_ms < 2**63  # Spark stores it as a 64-bit number


micro_batches = st.lists(
    st.tuples(
        st.integers(1, 3_000),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), max_size=3),
    ),
    max_size=12,
)


@given(
    kind=st.sampled_from(KINDS),
    window=st.sampled_from([0, 2, 3]),
    timeout=st.sampled_from([0, 0.8, 2]),
    gaps=micro_batches,
)
def test_k5_micro_batches_at_any_times_give_the_batches_of_a_plain_builder(
    kind: pa.DataType, window: float, timeout: float, gaps: list[tuple[int, list[Message]]]
) -> None:
    subject = Subject(kind, window, timeout)
    now_ms = 0
    out: list[plainly.Batch] = []
    fed: list[tuple[plainly.Rows, datetime]] = []
    for gap_ms, messages in [*gaps, (10_000, [])]:
        now_ms += gap_ms
        out += subject.sees(after(now_ms / 1000), *messages)
        fed.append(([subject.row(message) for message in messages], after(now_ms / 1000)))
    assert out == plainly.batches(fed, window, timeout)
