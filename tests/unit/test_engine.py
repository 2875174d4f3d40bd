"""The laws of the core, on an engine turned by hand: no thread, no sleep, no real time."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import stop_after_attempt, stop_after_delay, wait_exponential, wait_fixed

from dispatcher import (
    AlreadyEnqueuedError,
    BatchAbandonedError,
    BatcherStoppedError,
    BufferFullError,
    Operation,
    PartialFailure,
    Reject,
    Retry,
    Throttled,
    TooExpensiveError,
    TooManyAttemptsError,
    Watcher,
)
from dispatcher.engine import Waiter
from limiters import ProvisionedResource
from limiters.testing import ManualClock
from tests.crank import FOREVER, Crank


def ignore(batch: list[Operation]) -> None:
    pass


def batchable(watcher: Watcher, *payloads: Any, cost: float = 1, **kwargs: Any) -> list[Operation]:
    return [Operation(watcher, cost, one, batchable=True, **kwargs) for one in payloads]


def limited(capacity: float, **settings: Any) -> Crank:
    clock = ManualClock()
    return Crank(limiter=ProvisionedResource(capacity, clock=clock), clock=clock, **settings)


# When a batch goes.


def test_operations_wait_for_company_until_the_flush_interval() -> None:
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
    assert crank.engine.books.totals.done == 500


def test_a_flush_on_demand_raises_what_waits() -> None:
    crank = Crank(flush_interval=1000)
    crank.enqueue(*batchable(Watcher(ignore), "a"))
    crank.flush()
    assert [call.payloads for call in crank.calls] == [["a"]]


def test_what_is_not_batchable_waits_for_nobody() -> None:
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


def test_max_concurrent_batches_bounds_what_is_in_flight_and_packs() -> None:
    crank = Crank(max_concurrent_batches=2)
    watcher = Watcher(ignore, max_batch_size=2)
    crank.enqueue(*batchable(watcher, *range(7)))
    crank.flush()
    assert [call.payloads for call in crank.calls] == [[0, 1], [2, 3]]
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [[2, 3], [4, 5]]


# B1: order.


def test_b1_a_key_has_one_batch_in_flight_and_others_go_on() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "a1", key="a"), Operation(watcher, 1, "a2", key="a"))
    crank.enqueue(Operation(watcher, 1, "b1", key="b"))
    crank.run(1)
    assert [call.payloads for call in crank.calls] == [["a1"], ["b1"]]
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [["b1"], ["a2"]]


def test_b1_a_failed_batch_is_retried_before_anything_later_of_its_key() -> None:
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


# B2 and B3: never lost, never twice, always counted.


def test_b2_what_is_buffered_or_in_flight_cannot_be_enqueued_again() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    operation = Operation(watcher, 7, "a")
    crank.enqueue(operation)
    with pytest.raises(AlreadyEnqueuedError):
        crank.enqueue(operation)
    crank.turn()
    with pytest.raises(AlreadyEnqueuedError):
        crank.enqueue(operation)
    assert crank.engine.books.read() == (7, 1, 0)
    crank.end_all()
    crank.enqueue(operation)
    assert operation.attempt == 1
    assert crank.engine.books.read() == (7, 0, 1)


def test_b2_its_own_callback_may_enqueue_it_again_which_takes_effect_at_the_end() -> None:
    crank, watcher = Crank(buffer_size=1), Watcher(ignore, max_attempts=2)
    operation = Operation(watcher, 7, "a")
    crank.enqueue(operation)
    crank.turn()
    with crank.calls[0].inside():
        crank.enqueue(operation)
        with pytest.raises(AlreadyEnqueuedError):
            crank.enqueue(operation)
    assert crank.engine.books.read() == (7, 1, 0)
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [["a"]]
    assert crank.engine.books.read() == (7, 1, 0)
    with crank.calls[0].inside(), pytest.raises(TooManyAttemptsError, match="attempted 2 times"):
        crank.enqueue(operation)
    crank.end_all()
    assert crank.engine.books.totals.done == 1


def test_b3_a_refused_enqueue_leaves_no_trace() -> None:
    crank, watcher = Crank(buffer_size=1), Watcher(ignore)
    crank.enqueue(Operation(watcher, 5, "a", batchable=True))
    for _ in range(3):
        refused = Operation(watcher, 5, "b", batchable=True)
        with pytest.raises(BufferFullError):
            crank.enqueue(refused)
        assert crank.engine.books.read() == (5, 0, 1)
    crank.turn()
    crank.enqueue(refused)
    assert crank.engine.books.read() == (10, 1, 1)


def test_b3_the_target_is_what_has_not_ended() -> None:
    crank, watcher = Crank(), Watcher(ignore, retry=wait_fixed(1))
    crank.enqueue(*batchable(watcher, "a", "b", cost=2.5), Operation(watcher, 10, "c"))
    assert crank.engine.books.read()[0] == 15
    crank.flush()
    assert crank.engine.books.read()[0] == 15
    first, second = crank.calls
    first.end(PartialFailure(first.operations[:1]))
    second.end()
    crank.turn()
    assert crank.engine.books.read() == (2.5, 0, 1)
    crank.run(1.5)
    crank.end_all()
    assert crank.engine.books.read() == (0, 0, 0)


def test_b3_the_audit_finds_and_repairs_a_corrupted_target() -> None:
    crank = Crank(audit_interval=10)
    crank.engine.books.target += 100
    crank.run(10)
    assert crank.names() == ["audit-fail"]
    assert crank.events[0].message == "the target was 100 and is set to 0"
    assert crank.engine.books.target == 0
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


def test_b5_stop_gives_back_what_is_not_in_flight_oldest_first() -> None:
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
    assert crank.engine.books.read() == (1, 1, 0)
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
    assert crank.engine.endings.given_back == [operation]
    assert crank.engine.books.read() == (0, 0, 0)


def test_b5_stop_interrupts_a_pause() -> None:
    crank = Crank()
    crank.post(crank.engine.begin_pause, 1000.0)
    operation = Operation(Watcher(ignore), 1, "a")
    crank.enqueue(operation)
    assert crank.stop() == [operation]
    assert crank.names() == ["pause", "resume"]


# B6 and B12: how a callback ends.


def test_b6_without_retry_a_failed_batch_has_failed() -> None:
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
    assert crank.engine.books.read() == (0, 0, 0)
    assert operation.attempt == 1


def test_retry_waits_as_tenacity_says_and_ends_in_the_failure_callback() -> None:
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
    assert crank.engine.books.totals.failed == 1
    assert crank.engine.books.totals.retried == 3


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
        assert crank.engine.books.totals.failed == 1


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
    totals = crank.engine.books.totals
    assert (totals.done, totals.failed, totals.retried) == (2, 1, 5)


def test_b12_partial_failure_naming_strangers_fails_the_whole_batch() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.turn()
    crank.end_all(PartialFailure([Operation(watcher, 1, "stranger")]))
    assert crank.engine.books.totals.failed == 1
    assert "not of this batch" in crank.events[0].message


def test_b12_throttled_pauses_retries_and_is_counted() -> None:
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
    assert crank.engine.books.totals.throttled == 1


# B7: batches that take too long.


def test_b7_an_abandoned_batch_frees_target_and_slot_once_and_its_late_result_only_counts() -> None:
    crank = Crank(max_concurrent_batches=1, max_operation_time=10, audit_interval=1000)
    watcher = Watcher(ignore)
    crank.enqueue(Operation(watcher, 5, "slow"), Operation(watcher, 1, "next"))
    crank.turn()
    slow = crank.calls[0]
    crank.run(9.9)
    assert crank.engine.books.read() == (6, 1, 1)
    crank.run(0.2)
    assert crank.names() == ["batch-abandoned"]
    assert crank.engine.books.read() == (1, 1, 0)
    slow.end(OSError("much too late"))
    crank.turn()
    assert crank.engine.books.read() == (1, 1, 0)
    totals = crank.engine.books.totals
    assert (totals.abandoned, totals.late, totals.failed) == (1, 1, 0)


def test_b7_the_watchers_time_takes_precedence() -> None:
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


def test_b7_an_abandoned_batch_is_retried_only_where_the_watcher_asks() -> None:
    crank = Crank(max_operation_time=1)
    watcher = Watcher(ignore, retry=wait_fixed(1), retry_abandoned=True)
    crank.enqueue(Operation(watcher, 1, "keyed", key="k"), Operation(watcher, 1, "free"))
    crank.turn()
    keyed, _ = crank.calls
    crank.run(2.5)
    assert [o.payload for _, batch in crank.raised for o in batch] == ["keyed", "free", "free"]
    assert crank.engine.books.totals.abandoned == 0
    keyed.end(BatchAbandonedError(1))
    crank.turn()
    assert crank.raised[-1][1][0].payload == "keyed"
    assert crank.raised[-1][1][0].attempt == 2


def test_b7_a_late_return_does_not_forget_a_lane_that_was_made_since() -> None:
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
    crank.post(crank.engine.begin_pause, 10.0)
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
    crank.post(crank.engine.begin_pause, 10.0)
    requests = [event.value for event in crank.events if event.name == "request"]
    assert requests[0] == 500
    assert requests[-1] == 0


# The limit.


def test_c3_capacity_below_ten_a_second_still_flows_at_100_ms() -> None:
    for capacity in (0.5, 1, 7):
        crank = limited(capacity, flush_interval=0.1)
        watcher = Watcher(ignore)
        crank.enqueue(*batchable(watcher, *range(1000), cost=min(1, capacity)))
        crank.run(20, at_turn=crank_ends(crank))
        raised = sum(o.cost for _, batch in crank.raised for o in batch)
        assert 0.97 * capacity * 19 <= raised <= capacity * 21


def test_c3_a_flush_without_capacity_lets_nothing_through_that_costs() -> None:
    crank = limited(10)
    watcher = Watcher(ignore)
    crank.enqueue(Operation(watcher, 10, "all of it"))
    crank.run(0.5)
    crank.enqueue(Operation(watcher, 1, "costs"), Operation(watcher, 0, "free"))
    for _ in range(5):
        crank.flush()
    assert [o.payload for _, b in crank.raised for o in b] == ["all of it", "free"]
    crank.run(1)
    assert crank.raised[-1][1][0].payload == "costs"


def test_c4_a_dear_operation_goes_in_bounded_time_and_nothing_younger_overtakes_it() -> None:
    crank = limited(100)
    watcher = Watcher(ignore)
    crank.enqueue(*(Operation(watcher, 5, n) for n in range(10)))
    crank.run(0.5)
    crank.enqueue(Operation(watcher, 90, "dear"))
    crank.enqueue(*(Operation(watcher, 1, f"later {n}") for n in range(20)))
    crank.run(3, at_turn=crank_ends(crank))
    order = [o.payload for _, batch in crank.raised for o in batch]
    assert order == [*range(10), "dear", *(f"later {n}" for n in range(20))]
    at = next(at for at, batch in crank.raised if batch[0].payload == "dear")
    assert at <= 2


def test_c4_a_dear_operation_goes_though_another_batcher_keeps_the_limiter_busy() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    dear, busy = (Crank(limiter=limiter, clock=clock) for _ in range(2))
    watcher = Watcher(ignore)
    dear.enqueue(Operation(watcher, 50, "dear"))
    for _ in range(400):
        busy.enqueue(Operation(Watcher(ignore), 1, None))
        busy.enqueue(Operation(Watcher(ignore), 1, None))
        for crank in (busy, dear):
            if crank.rung or crank.engine._posts or crank.wake <= clock.now():
                crank.turn()
            for call in list(crank.calls):
                call.end()
        clock.advance(0.01)
    [(at, _)] = dear.raised
    assert at <= 2.5
    assert sum(one.cost for _, batch in busy.raised for one in batch) >= 250


def test_a_turn_that_nobody_takes_lapses() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    limiter.grant(100, 100, "a").spend(100).started(0.0)
    assert limiter.grant(60, 60, "gone").amount == 0
    clock.advance(1.05)
    assert limiter.grant(1, 0, "other").amount == 0
    clock.advance(0.2)
    assert limiter.grant(1, 0, "other").amount == 1


def test_c4_what_costs_more_than_max_capacity_is_refused() -> None:
    crank = limited(100)
    with pytest.raises(TooExpensiveError, match="costs 101, more than the limiter's max_capacity"):
        crank.enqueue(Operation(Watcher(ignore), 101, "dear"))
    crank.enqueue(Operation(Watcher(ignore), 100, "just"))


def test_c9_queued_operations_that_fit_no_more_fail_with_too_expensive() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    crank = Crank(limiter=limiter, clock=clock)
    errors: list[BaseException] = []
    watcher = Watcher(ignore, on_failure=lambda operations, error: errors.append(error))
    crank.enqueue(Operation(watcher, 90, "fits", key="k"), Operation(watcher, 80, "no", key="k"))
    crank.enqueue(Operation(watcher, 5, "small", key="k"))
    crank.turn()
    limiter.set_capacity(50)
    crank.run(0.1)
    [_, handed] = crank.calls
    assert handed.payloads == ["no"]
    assert isinstance(handed.job.arguments[1], TooExpensiveError)
    handed.end()
    crank.calls[0].end()
    crank.run(2)
    assert crank.raised[-1][1][0].payload == "small"
    assert crank.engine.books.read() == (5, 1, 0)


def test_c5_demand_is_what_the_free_slots_can_use() -> None:
    crank = limited(100, emit_request=True, max_concurrent_batches=2)
    watcher = Watcher(ignore, max_batch_size=5)
    crank.enqueue(*batchable(watcher, *range(100), cost=2))
    crank.run(0.3)
    assert len(crank.calls) == 2  # slow callbacks: what is left cannot be used
    requests = [event.value for event in crank.events if event.name == "request"]
    assert requests[-1] == 0
    crank.calls[0].end()
    crank.calls[0].end()
    crank.run(0.001)
    requests = [event.value for event in crank.events if event.name == "request"]
    assert 0 < requests[-1] <= 20  # two slots, five operations each, of cost two


def test_c5_what_waits_behind_a_key_in_flight_is_no_demand() -> None:
    crank = limited(1000, emit_request=True)
    watcher = Watcher(ignore)
    crank.enqueue(*(Operation(watcher, 5, n, key="k") for n in range(10)))
    crank.run(0.3)
    assert len(crank.calls) == 1
    assert [event.value for event in crank.events if event.name == "request"][-1:] in ([], [0])


def test_an_idle_engine_asks_the_limiter_for_nothing() -> None:
    crank = limited(100, emit_request=True)
    crank.enqueue(*batchable(Watcher(ignore, max_batch_size=3), *range(50), cost=0.1))
    crank.run(2)
    crank.end_all()
    crank.run(1)
    crank.events.clear()
    crank.run(9)
    assert "request" not in crank.names()


# Events.


def test_frequent_events_come_only_when_asked_for() -> None:
    crank = Crank(emit_batch=True, emit_flush=True)
    [operation] = batchable(Watcher(ignore), "a")
    crank.enqueue(operation)
    crank.run(0.2)
    assert crank.names() == ["flush-start", "batch", "flush-done"]
    assert crank.events[1].metadata == [operation]
    assert crank.events[1].value == crank.events[2].value == 1
    quiet = Crank()
    quiet.enqueue(Operation(Watcher(ignore), 1, "a"))
    quiet.run(0.2)
    assert quiet.names() == []


# The rest.


def test_b4_a_batch_for_which_there_is_no_thread_comes_back_and_is_not_an_attempt() -> None:
    crank = limited(10)
    crank.runners.refusing = True
    operation = Operation(Watcher(ignore), 10, "a", key="k")
    crank.enqueue(operation)
    crank.turn()
    assert crank.engine.books.read() == (10, 0, 1)
    crank.runners.refusing = False
    crank.run(1.5)
    assert [call.payloads for call in crank.calls] == [["a"]]
    assert operation.attempt == 1


def test_waiting_ends_when_all_of_a_watchers_operations_have_ended() -> None:
    crank, watcher = Crank(), Watcher(ignore, on_failure=lambda operations, error: None)
    told: list[str] = []
    crank.post(crank.engine.await_idle, Waiter(lambda: told.append("nothing yet")), watcher)
    assert told == ["nothing yet"]
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.post(crank.engine.await_idle, Waiter(lambda: told.append("idle")), watcher)
    crank.post(crank.engine.await_drained, Waiter(lambda: told.append("drained")))
    crank.end_all(OSError())
    assert told == ["nothing yet"]  # the failure callback is still running
    crank.end_all()
    assert told[1:] == ["idle", "drained"]


def test_watchers_that_are_done_are_forgotten() -> None:
    crank = Crank()
    for _ in range(100):
        crank.enqueue(Operation(Watcher(ignore), 1, "a", key="k"))
        crank.turn()
        crank.end_all()
    assert list(crank.engine.lanes) == []


def crank_ends(crank: Crank) -> Any:
    def end() -> None:
        for call in list(crank.calls):
            call.end()

    return end


# Found by review, each a way in which a law did not hold.


def test_b9_who_waited_outside_and_came_in_late_is_not_forgotten() -> None:
    crank, watcher = Crank(flush_interval=0.1), Watcher(ignore)
    early, late = batchable(watcher, "early", "late")
    early._where, late._where = next(crank.buffer.tickets), next(crank.buffer.tickets)
    crank.buffer.inbox.extend([late, early])  # the later ticket comes in first
    crank.turn()
    crank.run(0.2)
    assert [call.payloads for call in crank.calls] == [["late", "early"]]


def test_b9_what_comes_in_during_a_turn_is_seen_before_the_engine_sleeps() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.buffer.ring_at = FOREVER  # as after a call that the engine has not answered yet
    [operation] = batchable(watcher, "a")
    crank.enqueue(operation)
    assert not crank.buffer.look_at(0)


def test_b9_a_full_batch_beside_one_in_flight_does_not_wait_for_the_timer() -> None:
    crank = Crank(flush_interval=1000)
    busy, other = Watcher(ignore, max_batch_size=2), Watcher(ignore)
    crank.enqueue(*batchable(busy, 1, 2))
    crank.run(0)
    crank.enqueue(*batchable(other, "waits"))
    crank.run(0)
    crank.enqueue(*batchable(busy, 3, 4))
    crank.run(0)
    assert [call.payloads for call in crank.calls] == [[1, 2], [3, 4]]


def test_c3_crumbs_of_fractions_hold_nothing_up() -> None:
    crank = limited(1e6)
    watcher = Watcher(ignore, max_batch_size=1)
    for _ in range(20):
        crank.enqueue(*(Operation(watcher, n / 100, n) for n in range(1, 60)))
        crank.enqueue(Operation(watcher, 1e5, "large"))
        crank.run(1, at_turn=crank_ends(crank))
    crank.engine.lanes.ready_cost = -1e-8
    crank.enqueue(Operation(watcher, 0.091, "small"))
    crank.run(1)
    assert crank.raised[-1][1][0].payload == "small"


@pytest.mark.parametrize("wrong", [AttributeError("retry_after"), ZeroDivisionError()])
def test_b6_a_strategy_that_raises_fails_its_batch_and_no_more(wrong: Exception) -> None:
    def strategy(state: Any) -> float:
        raise wrong

    crank = Crank(pause_time=strategy)
    crank.enqueue(Operation(Watcher(ignore, retry=strategy), 1, "a"))
    crank.turn()
    crank.end_all(OSError())
    assert crank.engine.books.totals.failed == 1
    assert crank.events[0].metadata is wrong
    crank.post(crank.engine.begin_pause)
    assert crank.events[-1].value == 0.5


def test_b6_an_error_that_cannot_say_what_it_is_is_reported_all_the_same() -> None:
    class MuteError(Exception):
        def __repr__(self) -> str:
            raise RuntimeError

    crank = Crank()
    crank.enqueue(Operation(Watcher(ignore), 1, "a"))
    crank.turn()
    crank.end_all(MuteError())
    assert "MuteError" in crank.events[0].message


def test_b2_while_its_batch_is_being_judged_an_operation_cannot_enter_again() -> None:
    crank = Crank()
    operation = Operation(Watcher(ignore, retry=wait_fixed(1)), 1, "a")
    refused: list[bool] = []

    def emit(name: str, *args: Any) -> None:
        with pytest.raises(AlreadyEnqueuedError):
            crank.enqueue(operation)
        refused.append(True)

    crank.enqueue(operation)
    crank.turn()
    crank.engine.endings._emit = emit
    crank.end_all(OSError())
    assert refused == [True]
    assert crank.engine.books.read() == (1, 0, 1)


def test_b1_retried_with_priority_it_is_still_before_what_came_later_of_its_key() -> None:
    crank = limited(1000)
    watcher = Watcher(ignore, retry=wait_fixed(1))
    crank.enqueue(
        Operation(watcher, 1, "k1", batchable=True, key="k"),
        Operation(watcher, 1, "k2", key="k"),
        Operation(watcher, 1, "first", batchable=True, priority=5),
    )
    crank.flush()
    assert crank.calls[0].payloads == ["first", "k1"]
    crank.end_all(OSError())
    assert [o.payload for o in crank.stop()] == ["first", "k1", "k2"]


def test_c5_without_a_free_slot_there_is_no_demand_whatever_the_batch_size() -> None:
    crank = limited(1000, emit_request=True, max_concurrent_batches=1)
    crank.enqueue(Operation(Watcher(ignore), 1, "slow"))
    crank.turn()
    crank.enqueue(*batchable(Watcher(ignore), *range(500)))
    crank.run(0.5)
    assert [event.value for event in crank.events if event.name == "request"] in ([], [1, 0])


def test_a_failed_operation_that_grew_too_dear_leaves_nothing_behind() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    crank = Crank(limiter=limiter, clock=clock)
    crank.enqueue(Operation(Watcher(ignore, retry=wait_fixed(1)), 90, "a"))
    crank.turn()
    crank.end_all(OSError())
    limiter.set_capacity(50)
    crank.run(5)
    assert crank.engine.endings._since == {}
    assert crank.engine.books.totals.failed == 1


def test_b4_the_system_may_give_threads_again() -> None:
    crank = Crank()
    assert crank.runners.threads_left == 2000
    crank.runners._most_threads = 1
    crank.runners.threads_used = 1
    crank.runners.ended(on_loop=False)
    assert crank.runners.threads_left == 2000
