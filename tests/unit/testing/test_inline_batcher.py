"""The Batcher for users' tests: the real one's rules, on time that is turned by hand."""

from __future__ import annotations

import asyncio
import threading
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import wait_fixed

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    BufferFullError,
    ImproperOrderError,
    Operation,
    PartialFailure,
    ProvisionedResource,
    Reject,
    Retry,
    Throttled,
    Watcher,
)
from dispatcher.testing import InlineBatcher, ManualClock, RaisedBatch, StuckError, inline
from limiters import SharedResource
from limiters.verifier import verify


def ignore(batch: list[Operation]) -> None:
    pass


def enqueue(batcher: Batcher, watcher: Watcher, *payloads: Any, cost: float = 1) -> None:
    for one in payloads:
        batcher.enqueue(Operation(watcher, cost, one, batchable=True))


def payloads(batches: list[RaisedBatch]) -> list[list[Any]]:
    return [batch.payloads for batch in batches]


def limited(capacity: float, **options: Any) -> InlineBatcher:
    clock = ManualClock()
    return InlineBatcher(
        clock=clock, rate_limiter=ProvisionedResource(capacity, clock=clock), **options
    )


def test_it_passes_for_a_batcher_and_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, start, started = threading.current_thread(), threading.Thread.start, list[str]()

    def noted(thread: threading.Thread) -> None:
        if threading.current_thread() is ours:  # others are left from other tests
            started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    with limited(100) as batcher:
        assert isinstance(batcher, Batcher)
        enqueue(batcher, Watcher(ignore), *range(10))
        batcher.add_listener(lambda event: None)
        batcher.turn(10)
    assert started == []


def test_nothing_is_raised_until_it_is_turned() -> None:
    with InlineBatcher() as batcher:
        watcher = Watcher(ignore, max_batch_size=2)
        enqueue(batcher, watcher, "a", "b", "c")
        assert (batcher.batches, batcher.operations_in_buffer, batcher.needs_capacity) == ([], 3, 3)
        assert payloads(batcher.turn()) == [["a", "b"]]
        assert payloads(batcher.turn(0.09)) == []
        assert payloads(batcher.turn(0.01)) == [["c"]]
        assert [batch.at for batch in batcher.batches] == pytest.approx([0, 0.1])


def test_c1_the_limit_holds_in_every_window() -> None:
    with limited(100, flush_interval=0.01) as batcher:
        enqueue(batcher, Watcher(ignore, max_batch_size=5), *range(1_000))
        batcher.drain()
    verdict = verify([(b.at, "test", b.cost) for b in batcher.batches], 100)
    assert verdict.holds
    assert batcher.clock.now() == pytest.approx(10, abs=0.5)


def test_an_error_is_treated_as_a_batcher_treats_it_and_noted() -> None:
    failed = []
    answers: dict[str, BaseException] = {"b": ValueError("no"), "d": Reject("never")}

    def write(batch: list[Operation]) -> None:
        if batch[0].payload in answers and batch[0].attempt == 1:
            raise answers[batch[0].payload]

    watcher = Watcher(
        write,
        max_batch_size=1,
        retry=wait_fixed(5),
        on_failure=lambda operations, error: failed.append((operations[0].payload, str(error))),
    )
    with InlineBatcher() as batcher:
        enqueue(batcher, watcher, *"abcd")
        assert [batch.error for batch in batcher.turn()] == [None, answers["b"], None, answers["d"]]
        assert payloads(batcher.turn(4.9)) == []
        assert payloads(batcher.turn(0.2)) == [["b"]]
    assert failed == [("d", "rejected: never")]
    assert batcher.totals.done == 3
    names = [event.name for event in batcher.events]
    assert names.count("batch-failed") == 2
    assert names[-1] == "shutdown"


def test_b12_throttled_pauses_it_and_what_was_throttled_comes_again() -> None:
    refusals = [Throttled(retry_after=3)]

    def write(batch: list[Operation]) -> None:
        if refusals:
            raise refusals.pop()

    with InlineBatcher() as batcher:
        enqueue(batcher, Watcher(write, max_batch_size=2), "a", "b")
        batcher.turn()
        assert batcher.state == "paused"
        assert payloads(batcher.turn(2.9)) == []
        assert payloads(batcher.turn(0.2)) == [["a", "b"]]
    assert [event.value for event in batcher.events if event.name == "pause"] == [3]


def test_b1_a_key_keeps_its_order_through_retries() -> None:
    def write(batch: list[Operation]) -> None:
        if batch[0].payload == 0 and batch[0].attempt == 1:
            raise Retry(after=1)

    watcher = Watcher(write, max_batch_size=1)
    with InlineBatcher() as batcher:
        for number in range(3):
            batcher.enqueue(Operation(watcher, 1, number, batchable=True, key="meter-1"))
        batcher.turn(0.5)
        assert payloads(batcher.batches) == [[0]]
        batcher.turn(1)
        assert payloads(batcher.batches) == [[0], [0], [1], [2]]


def test_waiting_turns_the_clock_as_far_as_it_has_to() -> None:
    with limited(10) as batcher:
        watcher = Watcher(ignore, max_batch_size=1)
        enqueue(batcher, watcher, *range(50))
        assert not watcher.wait(timeout=2)
        assert batcher.clock.now() == pytest.approx(2)
        assert watcher.wait()
        assert 4 <= batcher.clock.now() < 6


def test_b5_stop_gives_back_what_was_not_raised() -> None:
    batcher = limited(10)
    batcher.start()
    enqueue(batcher, Watcher(ignore), *range(3), cost=10)
    batcher.turn(0.2)
    given_back = batcher.stop(drain=False)
    assert len(given_back) + sum(map(len, payloads(batcher.batches))) == 3
    assert batcher.stop() == given_back
    with pytest.raises(BatcherStoppedError):
        enqueue(batcher, Watcher(ignore), "late")
    with pytest.raises(ImproperOrderError, match="make a new Batcher"):
        batcher.turn()


def test_a_full_buffer_makes_room_by_turning() -> None:
    with limited(10, max_buffer_size=5, flush_interval=0.05) as batcher:
        watcher = Watcher(ignore, max_batch_size=1)
        enqueue(batcher, watcher, *range(30))
        assert batcher.clock.now() > 1
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(30, 50)])
    assert list(chain(*payloads(batcher.batches))) == list(range(50))


def test_a_full_buffer_refuses_when_the_time_is_up_and_leaves_no_trace() -> None:
    with limited(1, max_buffer_size=1) as batcher:
        watcher = Watcher(ignore)
        enqueue(batcher, watcher, "a")
        batcher.turn(0.2)
        enqueue(batcher, watcher, "b")
        one = Operation(watcher, 1, "c", batchable=True)
        with pytest.raises(BufferFullError):
            batcher.enqueue(one, timeout=0.1)
        assert batcher.needs_capacity == 1
        batcher.enqueue(one)
        batcher.drain()
    assert payloads(batcher.batches) == [["a"], ["b"], ["c"]]


def test_before_the_start_there_is_no_way_to_make_room() -> None:
    batcher = InlineBatcher(max_buffer_size=1)
    enqueue(batcher, Watcher(ignore), "a")
    with pytest.raises(BufferFullError):
        enqueue(batcher, Watcher(ignore), "b")
    with batcher:
        pass
    assert payloads(batcher.batches) == [["a"]]


def test_a_callback_may_take_time_and_is_abandoned_when_it_takes_too_much() -> None:
    batcher = InlineBatcher(max_operation_time=30)
    watcher = Watcher(lambda batch: batcher.turn(31), max_batch_size=1)
    with batcher:
        enqueue(batcher, watcher, "a")
        batcher.turn()
    names = [event.name for event in batcher.events]
    assert "batch-abandoned" in names
    assert (batcher.totals.abandoned, batcher.totals.done) == (1, 0)
    assert batcher.totals.late == 1


def test_a_callback_may_enqueue_again_pause_and_flush_but_not_wait_for_itself() -> None:
    seen = []

    def write(batch: list[Operation]) -> None:
        seen.append([one.payload for one in batch])
        if len(seen) == 1:
            batcher.enqueue(batch[0])
            enqueue(batcher, watcher, "new")
            batcher.pause(1)
            batcher.flush()
            with pytest.raises(ImproperOrderError):
                batcher.drain()

    watcher = Watcher(write)
    with InlineBatcher() as batcher:
        enqueue(batcher, watcher, "a", "b")
        batcher.turn(0.1)
        assert seen == [["a", "b"]]
        batcher.turn(1)
    assert sorted(chain(*seen[1:])) == ["a", "new"]


def test_a_listener_may_call_it_and_harms_nothing_when_it_raises() -> None:
    heard = []

    def listen(event: Any) -> None:
        heard.append(event.name)
        batcher.pause(1)
        raise RuntimeError("a listener")

    batcher = InlineBatcher(emit_batch=True)
    batcher.add_listener(listen, "batch")
    with batcher:
        enqueue(batcher, Watcher(ignore, max_batch_size=1), "a")
        batcher.turn()
        assert batcher.state == "paused"
    assert heard == ["batch"]


def test_coroutines_run_on_one_loop_also_where_a_loop_runs_already() -> None:
    loops = []

    async def write(batch: list[Operation]) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        if batch[0].payload == "b":
            raise PartialFailure(batch, Reject("no"))

    watcher = Watcher(write, max_batch_size=1)

    async def test() -> None:
        async with InlineBatcher() as batcher:
            await batcher.enqueue_async(Operation(watcher, 1, "a"))
            batcher.turn()
            await batcher.enqueue_async(Operation(watcher, 1, "b"))
        assert (batcher.totals.done, batcher.totals.failed) == (1, 1)

    asyncio.run(test())
    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_what_never_comes_is_an_error_instead_of_a_wait_without_end() -> None:
    def again(batch: list[Operation]) -> None:
        raise Retry(after=600)

    batcher = InlineBatcher()
    batcher.start()
    enqueue(batcher, Watcher(again, max_batch_size=1), "a")
    with pytest.raises(StuckError, match="look at `batches`"):
        batcher.drain()
    assert not batcher.drain(timeout=5)
    assert len(batcher.stop(drain=False)) == 1


def test_turning_on_the_spot_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "MOST_TURNS", 1_000)
    batcher = InlineBatcher()
    watcher = Watcher(lambda batch: enqueue(batcher, watcher, "more"), max_batch_size=1)
    batcher.start()
    enqueue(batcher, watcher, "a")
    with pytest.raises(StuckError, match="always more to do"):
        batcher.turn()
    batcher.stop(drain=False)


def test_a_limiter_that_goes_by_another_time_is_refused() -> None:
    with pytest.raises(ValueError, match="same clock"):
        InlineBatcher(rate_limiter=ProvisionedResource(10))
    with pytest.raises(ValueError, match="rate_limiter must be a ProvisionedResource"):
        InlineBatcher(rate_limiter=SharedResource(reserved_capacity=10))
    with pytest.raises(ValueError, match="rate_limiter must be a RateLimiter"):
        InlineBatcher(rate_limiter=ProvisionedResource)  # type: ignore[arg-type]


def test_a_capacity_that_changes_is_followed() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(10, clock=clock)
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        enqueue(batcher, Watcher(ignore, max_batch_size=1), *range(100))
        batcher.turn(1)
        slow = len(batcher.batches)
        limiter.set_capacity(100)
        assert len(batcher.turn(1)) > 3 * slow


@given(
    st.lists(st.tuples(st.integers(0, 30), st.floats(0, 0.5)), max_size=20),
    st.integers(1, 10),
    st.integers(1, 5),
)
def test_b2_each_operation_ends_once_and_the_same_calls_give_the_same_batches(
    arrivals: list[tuple[int, float]], size: int, most: int
) -> None:
    def run() -> list[tuple[float, list[Any]]]:
        batcher = limited(20, max_concurrent_batches=most, flush_interval=0.07)
        watcher = Watcher(ignore, max_batch_size=size)
        with batcher:
            for count, wait in arrivals:
                enqueue(batcher, watcher, *range(count))
                batcher.turn(wait)
        assert batcher.totals.done == sum(count for count, _ in arrivals)
        assert batcher.needs_capacity == 0
        assert verify([(b.at, "test", b.cost) for b in batcher.batches], 20).holds
        return [(batch.at, batch.payloads) for batch in batcher.batches]

    assert run() == run()
