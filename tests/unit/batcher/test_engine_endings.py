"""How batches end, and pauses: laws B6 to B8 and B12."""

from __future__ import annotations

import pytest
from tenacity import stop_after_attempt, stop_after_delay, wait_exponential, wait_fixed

from dispatcher import (
    BatchAbandonedError,
    Operation,
    PartialFailure,
    Reject,
    Retry,
    Throttled,
    Watcher,
)
from tests.crank import Crank, batchable, ignore, limited

# B6 and B12: how a callback ends.


def test_b6_without_a_retry_a_batch_that_raises_has_failed() -> None:
    crank, handed = Crank(), []
    watcher = Watcher(ignore, on_failure=lambda operations, error: handed.append(error))
    operation = Operation(watcher, 1, "a")
    crank.enqueue(operation)
    crank.turn()
    error = OSError("refused")
    crank.end_all(error)
    assert crank.names() == ["batch-failed"]
    assert crank.events[0].metadata is error
    [call] = crank.calls
    assert call.job.function is watcher.on_failure
    assert call.job.arguments == ([operation], error)
    assert crank.engine.open_work.read() == (0, 0, 0)
    assert operation.attempt == 1


def test_a_retry_waits_as_its_strategy_says_and_ends_in_the_failure_callback() -> None:
    crank = Crank()
    failed: list[list[Operation]] = []
    watcher = Watcher(
        ignore,
        retry=(wait_exponential(multiplier=1), stop_after_attempt(4)),
        on_failure=lambda operations, error: failed.append(operations),
    )
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.turn()
    for _ in range(4):
        crank.end_all(OSError())
        crank.run(20)
    assert [at for at, _ in crank.raised[:4]] == pytest.approx([0, 1, 22, 44])
    assert crank.calls[0].job.function is watcher.on_failure
    assert crank.engine.open_work.totals.failed == 1
    assert crank.engine.open_work.totals.retried == 3


def test_stop_after_delay_counts_from_the_first_attempt() -> None:
    crank = Crank()
    watcher = Watcher(ignore, retry=(wait_fixed(4), stop_after_delay(10)))
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.turn()
    for _ in range(10):
        crank.end_all(OSError())
        crank.run(4)
    assert [at for at, _ in crank.raised] == pytest.approx([0, 4, 8, 12])


def test_max_attempts_bounds_every_kind_of_retry() -> None:
    for outcome in (OSError(), Retry(after=1), Throttled(1)):
        crank = Crank()
        watcher = Watcher(ignore, max_attempts=3, retry=wait_fixed(1))
        crank.enqueue(Operation(watcher, 1, "a"))
        for _ in range(6):
            crank.run(2)
            crank.end_all(outcome)
        assert len(crank.raised) == 3
        assert crank.engine.open_work.totals.failed == 1


def test_b12_retry_reject_and_partial_failure() -> None:
    crank = Crank()
    watcher = Watcher(ignore)
    crank.enqueue(*batchable(watcher, "a", "b", "c"))
    crank.flush()
    crank.end_all(Retry(after=3))
    crank.run(2.9)
    assert crank.calls == []
    crank.run(0.2)
    [call] = crank.calls
    call.end(PartialFailure(call.operations[1:], cause=Retry(after=1)))
    crank.run(1.2)
    [call] = crank.calls
    assert call.payloads == ["b", "c"]
    call.end(PartialFailure(call.operations[:1], cause=Reject("malformed")))
    crank.turn()
    assert crank.calls == []
    totals = crank.engine.open_work.totals
    assert (totals.done, totals.failed, totals.retried) == (2, 1, 5)


def test_b12_a_partial_failure_with_operations_of_other_batches_fails_the_whole_batch() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.turn()
    crank.end_all(PartialFailure([Operation(watcher, 1, "stranger")]))
    assert crank.engine.open_work.totals.failed == 1
    assert "not of this batch" in crank.events[0].message


def test_b12_throttled_pauses_the_batcher_and_is_retried_and_counted() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.turn()
    crank.end_all(Throttled(retry_after=2))
    assert crank.names() == ["batch-failed", "pause"]
    crank.run(1.9)
    assert crank.calls == []
    crank.run(0.2)
    assert [call.payloads for call in crank.calls] == [["a"]]
    assert crank.names()[-1] == "resume"
    assert crank.engine.open_work.totals.throttled == 1


# B7: batches that take too long.


def test_b7_an_abandoned_batch_frees_target_and_slot_once_and_its_late_result_only_counts() -> None:
    crank = Crank(max_concurrent_batches=1, max_operation_time=10, audit_interval=1000)
    watcher = Watcher(ignore)
    crank.enqueue(Operation(watcher, 5, "slow"), Operation(watcher, 1, "next"))
    crank.turn()
    slow = crank.calls[0]
    crank.run(9.9)
    assert crank.engine.open_work.read() == (6, 1, 1)
    crank.run(0.2)
    assert crank.names() == ["batch-abandoned"]
    assert crank.engine.open_work.read() == (1, 1, 0)
    slow.end(OSError("much too late"))
    crank.turn()
    assert crank.engine.open_work.read() == (1, 1, 0)
    totals = crank.engine.open_work.totals
    assert (totals.abandoned, totals.late, totals.failed) == (1, 1, 0)


def test_b7_the_max_operation_time_of_the_watcher_takes_precedence() -> None:
    crank = Crank(max_operation_time=1000)
    crank.enqueue(Operation(Watcher(ignore, max_operation_time=2), 1, "a"))
    crank.run(2.1)
    assert crank.names() == ["batch-abandoned"]


def test_b7_keys_stay_blocked_until_the_callback_returns() -> None:
    crank, watcher = Crank(max_operation_time=1), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "k1", key="k"), Operation(watcher, 1, "k2", key="k"))
    crank.turn()
    slow = crank.calls[0]
    crank.run(5)
    assert [call.payloads for call in crank.calls] == [["k1"]]
    slow.end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [["k2"]]


def test_b7_an_abandoned_batch_is_retried_only_if_its_watcher_asks_for_it() -> None:
    crank = Crank(max_operation_time=1)
    watcher = Watcher(ignore, retry=wait_fixed(1), retry_abandoned=True)
    crank.enqueue(Operation(watcher, 1, "keyed", key="k"), Operation(watcher, 1, "free"))
    crank.turn()
    keyed, _ = crank.calls
    crank.run(2.5)
    assert [o.payload for _, batch in crank.raised for o in batch] == ["keyed", "free", "free"]
    assert crank.engine.open_work.totals.abandoned == 0
    keyed.end(BatchAbandonedError(1))
    crank.turn()
    assert crank.raised[-1][1][0].payload == "keyed"
    assert crank.raised[-1][1][0].attempt == 2


def test_b7_a_late_return_does_not_remove_a_lane_that_was_made_since() -> None:
    crank, watcher = Crank(max_operation_time=1), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "slow"), Operation(watcher, 1, "slower"))
    crank.turn()
    slow, slower = crank.calls
    crank.run(2)
    slow.end()
    crank.turn()
    crank.enqueue(Operation(watcher, 1, "a1", key="a"))
    crank.turn()
    slower.end()
    crank.turn()
    crank.enqueue(Operation(watcher, 1, "a2", key="a"))
    crank.turn()
    assert [call.payloads for call in crank.calls] == [["a1"]]


# B8: pausing.


def test_b8_a_pause_raises_nothing_asks_for_nothing_and_audits_nothing() -> None:
    crank = limited(100, audit_interval=1, emit_request=True)
    watcher = Watcher(ignore)
    crank.enqueue(*batchable(watcher, *range(100)))
    crank.run(0.35)
    crank.end_all()
    crank.post(crank.engine.pausing.begin, 10.0)
    before = len(crank.raised)
    crank.events.clear()
    crank.run(9.9)
    assert len(crank.raised) == before
    assert [name for name in crank.names() if name != "batch"] == []
    crank.run(0.2)
    assert crank.names()[0] == "resume"
    assert "audit-skip" in crank.names()
    assert len(crank.raised) > before


def test_b8_a_paused_batcher_demands_nothing() -> None:
    crank = limited(100, emit_request=True)
    crank.enqueue(*batchable(Watcher(ignore), *range(500)))
    crank.run(0.15)
    crank.post(crank.engine.pausing.begin, 10.0)
    requests = [event.value for event in crank.events if event.name == "request"]
    assert requests[0] == 500
    assert requests[-1] == 0
