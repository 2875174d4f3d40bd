"""Which rows of a subject are sent at which time, by the rule alone."""

from __future__ import annotations

import pyarrow as pa

from dispatcher.spark.stateful._columns import TimeColumn
from dispatcher.spark.stateful._holding import HeldRows, SubjectHolding
from dispatcher.spark.stateful._parcels import Parcels

SCHEMA = pa.schema([("t", pa.int64())])
PARCELS = Parcels(SCHEMA)
HOLDING = SubjectHolding(SCHEMA, TimeColumn("t", pa.int64()), delay_ms=100, forget_after_ms=None)


def rows(*times: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([list(times)], schema=SCHEMA)]


class Subject:
    """Keeps the saved state of a subject from one micro-batch to the next."""

    state: bytes | None = None

    def sees(self, now: int, *times: int) -> tuple[list[int], list[int]]:
        """Run a micro-batch. Return the times that are sent: late ones, then others."""
        held = HeldRows(HOLDING, PARCELS, self.state)
        held.take(rows(*times) if times else [], now)
        late, on_time = held.release(now)
        _, out = PARCELS.unpack(held.packed(late, on_time))
        self.state, self.next_due = held.dump(), held.next_due
        times_out = out.column("t").to_pylist()
        return times_out[: len(late)], times_out[len(late) :]


def test_k1_a_row_that_comes_within_the_delay_is_sent_in_order() -> None:
    subject = Subject()
    assert subject.sees(0, 30, 10, 90) == ([], [])
    assert subject.next_due == 100
    assert subject.sees(99, 20, 95) == ([], [])
    assert subject.sees(100) == ([], [10, 20, 30, 90])
    assert subject.next_due == 199
    assert subject.sees(198, 90) == (
        [],
        [90],
    )  # the last time that was sent: nothing to wait for
    assert subject.sees(199) == ([], [95])
    assert subject.next_due is None


def test_k1_a_row_older_than_those_that_were_sent_is_late_and_does_not_wait() -> None:
    subject = Subject()
    subject.sees(0, 50)
    assert subject.sees(100, 40, 60) == ([], [40, 50])
    assert subject.sees(101, 49, 48) == ([48, 49], [])
    assert subject.sees(200) == ([], [60])
    assert subject.sees(10_000, 59, 60, 61) == ([59], [60])
