"""When a batch is raised, in which order, and that no operation is lost: laws B1 to B3, B5, B9."""

from __future__ import annotations

import pytest
from tenacity import wait_fixed

from dispatcher import (
    AlreadyEnqueuedError,
    BatcherStoppedError,
    BufferFullError,
    Operation,
    PartialFailure,
    TooManyAttemptsError,
    Watcher,
)
from tests.crank import Crank, batchable, ignore

# When a batch is raised.


def test_operations_wait_for_others_until_the_flush_interval() -> None:
    crank = Crank(flush_interval=0.1)
    crank.run(0.03)
    crank.enqueue(*batchable(Watcher(ignore), "a", "b"))
    crank.run(0.06)
    assert crank.calls == []
    crank.run(0.02)
    assert [call.payloads for call in crank.calls] == [["a", "b"]]
    assert crank.raised[0][0] == pytest.approx(0.1)


def test_b9_a_full_batch_does_not_wait_for_the_timer() -> None:
    crank = Crank(flush_interval=1000)
    watcher = Watcher(ignore, max_batch_size=3)
    for payload in "abcdefg":
        crank.enqueue(*batchable(watcher, payload))
        crank.run(0)
    assert [call.payloads for call in crank.calls] == [["a", "b", "c"], ["d", "e", "f"]]


def test_b9_a_full_buffer_does_not_wait_for_the_timer() -> None:
    crank = Crank(flush_interval=1000, buffer_size=3)
    watcher = Watcher(ignore)
    crank.enqueue(*batchable(watcher, "a", "b", "c"))
    crank.run(0)
    assert [call.payloads for call in crank.calls] == [["a", "b", "c"]]


def test_b9_throughput_is_not_bound_by_buffer_size_over_flush_interval() -> None:
    crank = Crank(flush_interval=10, buffer_size=5)
    watcher = Watcher(ignore)
    for number in range(500):
        crank.enqueue(*batchable(watcher, number))
        crank.run(0)
        crank.end_all()
    assert crank.clock.now() == 0
    assert crank.engine.open_work.totals.done == 500


def test_flush_raises_the_waiting_operations() -> None:
    crank = Crank(flush_interval=1000)
    crank.enqueue(*batchable(Watcher(ignore), "a"))
    crank.flush()
    assert [call.payloads for call in crank.calls] == [["a"]]


def test_an_operation_that_is_not_batchable_does_not_wait() -> None:
    crank = Crank(flush_interval=1000)
    crank.enqueue(Operation(Watcher(ignore), 1, "a"))
    crank.run(0)
    assert [call.payloads for call in crank.calls] == [["a"]]


def test_an_idle_engine_asks_for_nothing_before_its_audit() -> None:
    crank = Crank(audit_interval=10)
    crank.enqueue(*batchable(Watcher(ignore), "a"))
    crank.run(0.2)
    crank.end_all()
    assert crank.wake == 10


def test_max_concurrent_batches_bounds_the_batches_in_flight_and_fills_them() -> None:
    crank = Crank(max_concurrent_batches=2)
    watcher = Watcher(ignore, max_batch_size=2)
    crank.enqueue(*batchable(watcher, *range(7)))
    crank.flush()
    assert [call.payloads for call in crank.calls] == [[0, 1], [2, 3]]
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [[2, 3], [4, 5]]


# B1: order.


def test_b1_a_key_has_one_batch_in_flight_and_other_keys_go_on() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "a1", key="a"), Operation(watcher, 1, "a2", key="a"))
    crank.enqueue(Operation(watcher, 1, "b1", key="b"))
    crank.run(1)
    assert [call.payloads for call in crank.calls] == [["a1"], ["b1"]]
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [["b1"], ["a2"]]


def test_b1_a_failed_batch_is_retried_before_later_operations_of_its_key() -> None:
    crank, watcher = Crank(), Watcher(ignore, retry=wait_fixed(5))
    crank.enqueue(Operation(watcher, 1, "a1", key="a"), Operation(watcher, 1, "a2", key="a"))
    crank.turn()
    crank.end_all(OSError("lost"))
    crank.run(4.9)
    assert crank.calls == []
    crank.run(0.2)
    assert [call.payloads for call in crank.calls] == [["a1"]]
    assert crank.calls[0].operations[0].attempt == 2
    crank.end_all()
    assert [call.payloads for call in crank.calls] == [["a2"]]


def test_b1_keys_belong_to_their_watcher() -> None:
    crank, one, other = Crank(), Watcher(ignore), Watcher(ignore)
    crank.enqueue(Operation(one, 1, "a", key="k"), Operation(other, 1, "b", key="k"))
    crank.turn()
    assert len(crank.calls) == 2


# B2 and B3: an operation is never lost, never raised twice, and always counted.


def test_b2_an_operation_that_waits_or_is_in_flight_cannot_be_enqueued_again() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    operation = Operation(watcher, 7, "a")
    crank.enqueue(operation)
    with pytest.raises(AlreadyEnqueuedError):
        crank.enqueue(operation)
    crank.turn()
    with pytest.raises(AlreadyEnqueuedError):
        crank.enqueue(operation)
    assert crank.engine.open_work.read() == (7, 1, 0)
    crank.end_all()
    crank.enqueue(operation)
    assert operation.attempt == 1
    assert crank.engine.open_work.read() == (7, 0, 1)


def test_b2_its_own_callback_may_enqueue_an_operation_again_with_effect_at_its_end() -> None:
    crank, watcher = Crank(buffer_size=1), Watcher(ignore, max_attempts=2)
    operation = Operation(watcher, 7, "a")
    crank.enqueue(operation)
    crank.turn()
    with crank.calls[0].inside():
        crank.enqueue(operation)
        with pytest.raises(AlreadyEnqueuedError):
            crank.enqueue(operation)
    assert crank.engine.open_work.read() == (7, 1, 0)
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [["a"]]
    assert crank.engine.open_work.read() == (7, 1, 0)
    with crank.calls[0].inside(), pytest.raises(TooManyAttemptsError, match="attempted 2 times"):
        crank.enqueue(operation)
    crank.end_all()
    assert crank.engine.open_work.totals.done == 1


def test_b3_a_refused_enqueue_leaves_no_trace() -> None:
    crank, watcher = Crank(buffer_size=1), Watcher(ignore)
    crank.enqueue(Operation(watcher, 5, "a", batchable=True))
    for _ in range(3):
        refused = Operation(watcher, 5, "b", batchable=True)
        with pytest.raises(BufferFullError):
            crank.enqueue(refused)
        assert crank.engine.open_work.read() == (5, 0, 1)
    crank.turn()
    crank.enqueue(refused)
    assert crank.engine.open_work.read() == (10, 1, 1)


def test_b3_the_target_is_the_cost_of_operations_that_have_not_ended() -> None:
    crank, watcher = Crank(), Watcher(ignore, retry=wait_fixed(1))
    crank.enqueue(*batchable(watcher, "a", "b", cost=2.5), Operation(watcher, 10, "c"))
    assert crank.engine.open_work.read()[0] == 15
    crank.flush()
    assert crank.engine.open_work.read()[0] == 15
    first, second = crank.calls
    first.end(PartialFailure(first.operations[:1]))
    second.end()
    crank.turn()
    assert crank.engine.open_work.read() == (2.5, 0, 1)
    crank.run(1.5)
    crank.end_all()
    assert crank.engine.open_work.read() == (0, 0, 0)


def test_b3_the_audit_finds_and_repairs_a_corrupted_target() -> None:
    crank = Crank(audit_interval=10)
    crank.engine.open_work.target += 100
    crank.run(10)
    assert crank.names() == ["audit-fail"]
    assert crank.events[0].message == "the target was 100 and is set to 0"
    assert crank.engine.open_work.target == 0
    crank.run(10)
    assert crank.names() == ["audit-fail", "audit-pass"]


def test_b3_the_audit_skips_while_busy_and_passes_over_long_batches() -> None:
    crank = Crank(audit_interval=10, max_operation_time=15)
    watcher = Watcher(ignore, max_operation_time=1000)
    crank.enqueue(Operation(watcher, 3, "slow"))
    crank.turn()
    crank.run(31)
    assert crank.names() == ["audit-skip", "audit-pass", "audit-pass"]


# B5: stopping.


def test_b5_stop_gives_back_operations_that_are_not_in_flight_oldest_first() -> None:
    crank, watcher = Crank(), Watcher(ignore, retry=wait_fixed(100))
    resting = Operation(watcher, 1, "resting")
    crank.enqueue(resting)
    crank.turn()
    crank.end_all(OSError())
    in_flight = Operation(watcher, 1, "in flight", key="k")
    crank.enqueue(in_flight)
    crank.turn()
    waiting = [Operation(watcher, 1, n, batchable=True, key=k) for n, k in enumerate("kkl")]
    plain = batchable(watcher, "plain")
    crank.enqueue(*waiting, *plain)
    assert crank.stop() == [resting, *waiting, *plain]
    assert crank.engine.open_work.read() == (1, 1, 0)
    assert [one.attempt for one in (resting, *waiting)] == [1, 0, 0, 0]
    with pytest.raises(BatcherStoppedError):
        crank.enqueue(Operation(watcher, 1, "late"))


def test_b5_a_batch_that_fails_while_stopping_is_given_back_too() -> None:
    crank, watcher = Crank(), Watcher(ignore, retry=wait_fixed(1))
    operation = Operation(watcher, 1, "a", key="k")
    crank.enqueue(operation)
    crank.turn()
    returned = crank.stop()
    assert returned == []
    crank.end_all(OSError())
    assert crank.engine.batch_end.given_back == [operation]
    assert crank.engine.open_work.read() == (0, 0, 0)


def test_b5_stop_interrupts_a_pause() -> None:
    crank = Crank()
    crank.post(crank.engine.pausing.begin, 1000.0)
    operation = Operation(Watcher(ignore), 1, "a")
    crank.enqueue(operation)
    assert crank.stop() == [operation]
    assert crank.names() == ["pause", "resume"]


def test_b8_the_event_resume_has_the_length_of_the_pause() -> None:
    crank = Crank()
    crank.post(crank.engine.pausing.begin, 0.5)
    crank.run(2)
    crank.post(crank.engine.pausing.begin, 5.0)
    crank.run(0.25)
    crank.post(crank.engine.pausing.begin, 7.0)
    crank.run(0.25)
    crank.post(crank.engine.pausing.end)
    seen = [(event.name, event.value) for event in crank.events]
    assert seen == [
        ("pause", 0.5),
        ("resume", pytest.approx(0.5)),
        ("pause", 5.0),
        ("pause", 7.0),
        ("resume", pytest.approx(0.5)),
    ]
