"""Which of a subject's rows go out when, by the rule alone."""

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
    """From one micro-batch to the next, by way of the saved state."""

    state: bytes | None = None

    def sees(self, now: int, *times: int) -> tuple[list[int], list[int]]:
        """The times that go out: late ones, others."""
        held = HeldRows(HOLDING, PARCELS, self.state)
        held.take(rows(*times) if times else [], now)
        late, on_time = held.release(now)
        _, out = PARCELS.unpack(held.packed(late, on_time))
        self.state, self.next_due = held.dump(), held.next_due
        told = out.column("t").to_pylist()
        return told[: len(late)], told[len(late) :]


def test_k1_what_comes_within_the_delay_goes_out_in_front() -> None:
    subject = Subject()
    assert subject.sees(0, 30, 10, 90) == ([], [])
    assert subject.next_due == 100
    assert subject.sees(99, 20, 95) == ([], [])
    assert subject.sees(100) == ([], [10, 20, 30, 90])
    assert subject.next_due == 199
    assert subject.sees(198, 90) == (
        [],
        [90],
    )  # at the very time that went out: nothing to wait for
    assert subject.sees(199) == ([], [95])
    assert subject.next_due is None


def test_k1_what_is_earlier_than_what_went_out_is_late_and_does_not_wait() -> None:
    subject = Subject()
    subject.sees(0, 50)
    assert subject.sees(100, 40, 60) == ([], [40, 50])
    assert subject.sees(101, 49, 48) == ([48, 49], [])
    assert subject.sees(200) == ([], [60])
    assert subject.sees(10_000, 59, 60, 61) == ([59], [60])
