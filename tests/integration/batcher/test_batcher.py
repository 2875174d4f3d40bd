"""A Batcher on its real threads as users see it: operations in and out, in order, none lost."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dispatcher import (
    AlreadyEnqueuedError,
    Batcher,
    BufferFullError,
    ImproperOrderError,
    Operation,
    ProvisionedResource,
    Retry,
    State,
    TooManyAttemptsError,
    Watcher,
)
from tests.seen import PATIENCE, Seen
from tests.waiting import until

# Operations in and out.


def test_enqueued_operations_are_raised_in_batches(batcher: Batcher) -> None:
    seen = Seen()
    watcher = Watcher(seen, max_batch_size=100)
    for number in range(1000):
        batcher.enqueue(Operation(watcher, 1, number, batchable=True))
    assert watcher.wait(PATIENCE)
    assert sorted(seen.payloads) == list(range(1000))
    assert max(map(len, seen.batches)) <= 100
    assert batcher.needs_capacity == 0
    assert batcher.inflight == 0
    assert batcher.totals.done == 1000


def test_operations_may_be_enqueued_before_the_start() -> None:
    seen = Seen()
    watcher = Watcher(seen)
    batcher = Batcher()
    batcher.enqueue(Operation(watcher, 5, "early"))
    assert (batcher.needs_capacity, batcher.operations_in_buffer) == (5, 1)
    with batcher:
        assert watcher.wait(PATIENCE)
    assert seen.payloads == ["early"]


def test_thousands_of_async_callbacks_run_on_one_loop_at_the_same_time(batcher: Batcher) -> None:
    together = 3000
    threads: set[int] = set()
    inside = 0
    all_in = asyncio.Event()

    async def on_batch(batch: list[Operation]) -> None:
        nonlocal inside
        threads.add(threading.get_ident())
        inside += 1
        if inside == together:
            all_in.set()
        await all_in.wait()

    watcher = Watcher(on_batch)
    batcher.enqueue_many([Operation(watcher, 1, n) for n in range(together)])
    assert watcher.wait(PATIENCE)
    assert len(threads) == 1
    assert batcher.totals.done == together


def test_plain_callbacks_run_on_many_threads_at_the_same_time(batcher: Batcher) -> None:
    barrier = threading.Barrier(200)
    watcher = Watcher(lambda batch: barrier.wait(PATIENCE))
    batcher.enqueue_many([Operation(watcher, 1, n) for n in range(200)])
    assert watcher.wait(PATIENCE)
    assert batcher.totals.failed == 0


def test_the_error_for_a_plain_function_that_returns_a_coroutine_says_what_to_do(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(batch: list[Operation]) -> None: ...

    watcher = Watcher(lambda batch: send(batch))
    batcher.enqueue(Operation(watcher, 1, "a"))
    assert watcher.wait(PATIENCE)
    assert batcher.totals.failed == 1
    assert "declare it with async def" in caplog.text


def test_callable_objects_with_an_async_call_are_awaited(batcher: Batcher) -> None:
    done = []

    class Sender:
        async def __call__(self, batch: list[Operation]) -> None:
            await asyncio.sleep(0)
            done.append(batch[0].payload)

    watcher = Watcher(Sender())
    batcher.enqueue(Operation(watcher, 1, "a"))
    assert watcher.wait(PATIENCE)
    assert done == ["a"]


def test_enqueue_async_waits_for_a_place_without_blocking_the_loop() -> None:
    seen = Seen(held=True)
    watcher = Watcher(seen)
    batcher = Batcher(max_buffer_size=1, max_concurrent_batches=1)

    async def scenario() -> None:
        async with batcher:
            await batcher.enqueue_async(Operation(watcher, 1, "in flight"))
            await asyncio.to_thread(seen.entered.acquire)
            await batcher.enqueue_async(Operation(watcher, 1, "buffered"))
            with pytest.raises(BufferFullError):
                await batcher.enqueue_async(Operation(watcher, 1, "no"), timeout=0.01)
            waiting = asyncio.create_task(batcher.enqueue_async(Operation(watcher, 1, "waits")))
            for _ in range(100):
                await asyncio.sleep(0)  # the loop goes on
            assert not waiting.done()
            seen.gate.set()
            await asyncio.wait_for(waiting, PATIENCE)

    asyncio.run(scenario())
    assert seen.payloads == ["in flight", "buffered", "waits"]


def test_a_cancelled_enqueue_async_leaves_no_trace() -> None:
    watcher = Watcher(Seen())
    batcher = Batcher(max_buffer_size=1)

    async def scenario() -> None:
        await batcher.enqueue_async(Operation(watcher, 1, "fills"))
        refused = Operation(watcher, 1, "cancelled")
        task = asyncio.create_task(batcher.enqueue_async(refused))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert batcher.needs_capacity == 1
        assert refused._where is None

    asyncio.run(scenario())


# Laws of order, with threads.


def test_b1_keys_keep_their_order_under_load_and_failures(batcher: Batcher) -> None:
    done: dict[str, list[int]] = {key: [] for key in "abcdefgh"}
    busy: dict[str, threading.Lock] = {key: threading.Lock() for key in "abcdefgh"}
    failures = iter(range(1000))

    def on_batch(batch: list[Operation]) -> None:
        keys = {str(operation.key) for operation in batch}
        for key in keys:
            assert busy[key].acquire(blocking=False), "two batches of one key at the same time"
        try:
            if next(failures) % 3 == 0:
                raise Retry(after=0.001)
            for operation in batch:
                done[str(operation.key)].append(operation.payload)
        finally:
            for key in keys:
                busy[key].release()

    watcher = Watcher(on_batch, max_batch_size=7)
    for number in range(800):
        key = "abcdefgh"[number % 8]
        batcher.enqueue(Operation(watcher, 1, number, batchable=number % 5 > 0, key=key))
    assert watcher.wait(PATIENCE)
    for position, key in enumerate("abcdefgh"):
        assert done[key] == list(range(position, 800, 8))


def test_b2_with_sixteen_threads_no_operation_is_lost_or_raised_twice() -> None:
    seen = Seen()
    watcher = Watcher(seen, max_batch_size=50)
    with Batcher(max_buffer_size=100) as batcher:

        def feed(thread: int) -> None:
            for number in range(500):
                batcher.enqueue(Operation(watcher, 1, (thread, number), batchable=True))

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(feed, range(16)))
    assert sorted(seen.payloads) == [(t, n) for t in range(16) for n in range(500)]


def test_b2_one_operation_enqueued_by_many_threads_is_accepted_once() -> None:
    batcher = Batcher()
    watcher = Watcher(Seen())
    with ThreadPoolExecutor(8) as pool:
        for _ in range(300):
            operation = Operation(watcher, 1, None)
            barrier = threading.Barrier(8)

            def attempt(_: int, operation: Operation = operation, barrier: Any = barrier) -> int:
                barrier.wait()
                try:
                    batcher.enqueue(operation)
                except AlreadyEnqueuedError:
                    return 0
                return 1

            assert sum(pool.map(attempt, range(8))) == 1
    assert batcher.operations_in_buffer == 300


def test_b2_enqueueing_a_batch_again_in_its_callback_never_blocks() -> None:
    attempts: list[int] = []

    def on_batch(batch: list[Operation]) -> None:
        attempts.append(batch[0].attempt)
        try:
            batcher.enqueue(batch[0])
        except TooManyAttemptsError:
            gave_up.set()

    gave_up = threading.Event()
    watcher = Watcher(on_batch, max_attempts=3)
    with Batcher(max_buffer_size=1) as batcher:
        batcher.enqueue(Operation(watcher, 1, None))
        assert gave_up.wait(PATIENCE)
    assert attempts == [1, 2, 3]


# Draining, waiting, events.


def test_drain_sends_waiting_operations_without_waiting_for_full_batches() -> None:
    watcher = Watcher(Seen())
    with Batcher(flush_interval=3600) as batcher:
        batcher.enqueue(Operation(watcher, 1, None, batchable=True))
        assert batcher.drain(PATIENCE)
        assert batcher.needs_capacity == 0
        held = Seen(held=True)
        batcher.enqueue(Operation(Watcher(held), 1, None))
        assert not batcher.drain(0.01)
        held.gate.set()


def test_wait_is_for_operations_of_its_watcher_only(batcher: Batcher) -> None:
    held = Seen(held=True)
    slow, quick = Watcher(held), Watcher(Seen())
    batcher.enqueue(Operation(slow, 1, None))
    batcher.enqueue(Operation(quick, 1, None))
    assert quick.wait(PATIENCE)
    assert not slow.wait(0.01)
    held.gate.set()
    assert slow.wait(PATIENCE)
    assert Watcher(Seen()).wait()


def test_a_watcher_on_two_batchers_waits_for_both(batcher: Batcher) -> None:
    seen = Seen()
    watcher = Watcher(seen)
    with Batcher(flush_interval=0.01) as other:
        for number in range(50):
            (batcher if number % 2 else other).enqueue(Operation(watcher, 1, number))
        assert watcher.wait(PATIENCE)
    assert sorted(seen.payloads) == list(range(50))


def test_a_batcher_and_its_limiter_emit_events_from_start_to_end() -> None:
    names, of_limiter = list[str](), list[str]()
    limiter = ProvisionedResource(1000)
    limiter.add_listener(lambda event: of_limiter.append(event.name))
    batcher = Batcher(rate_limiter=limiter)
    batcher.add_listener(lambda event: names.append(event.name))
    with batcher:
        batcher.pause(0.001)
        until(lambda: "resume" in names)
    until(lambda: names[-1] == of_limiter[-1] == "shutdown")
    assert [name for name in names if name in ("pause", "resume")] == ["pause", "resume"]
    assert {"provision-start", "provision-done", "capacity"} <= set(of_limiter)


def test_a_batcher_does_not_stop_a_limiter_that_was_started_before() -> None:
    with ProvisionedResource(1000) as limiter:
        with Batcher(rate_limiter=limiter):
            pass
        states = [limiter.started]
        with pytest.raises(ImproperOrderError, match="already started"):
            limiter.start()
    assert [*states, limiter.started] == [True, False]
    with pytest.raises(ImproperOrderError, match="never started"):
        ProvisionedResource(1).stop()


def test_two_batchers_share_one_limiter() -> None:
    seen = Seen()
    watcher = Watcher(seen, max_batch_size=5)
    limiter = ProvisionedResource(1000)
    with limiter, Batcher(rate_limiter=limiter) as one, Batcher(rate_limiter=limiter) as other:
        for batcher in (one, other):
            batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(40)])
        assert watcher.wait(PATIENCE)
    assert sorted(seen.payloads) == sorted([*range(40), *range(40)])


@pytest.mark.parametrize(
    ("start", "to_call"), [("b.start()", "stop()"), ("pass", "start() and stop()")]
)
def test_a_process_that_ends_without_stop_logs_how_many_operations_were_not_sent(
    start: str, to_call: str
) -> None:
    code = (
        f"from dispatcher import *; b = Batcher(flush_interval=3600); {start};"
        "b.enqueue(Operation(Watcher(print), 1, None, batchable=True))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"1 operations were not sent: call {to_call} on the Batcher" in done.stderr


def test_an_interrupted_stop_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Seen(held=True)
    watcher = Watcher(held)
    batcher = Batcher(max_concurrent_batches=1)
    batcher.start()
    operations = [Operation(watcher, 1, n) for n in range(2)]
    batcher.enqueue_many(operations)
    assert held.entered.acquire(timeout=PATIENCE)

    def interrupted(*args: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batcher._engine_thread, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            batcher.stop()
    held.gate.set()
    assert batcher.stop(drain=False) == operations[len(held.batches) :]
    assert batcher.state == State.STOPPED


def test_b5_a_second_stop_ends_a_long_drain(batcher: Batcher) -> None:
    def later(batch: list[Operation]) -> None:
        raise Retry(after=3600)

    operation = Operation(Watcher(later), 1, "a")
    batcher.enqueue(operation)
    until(lambda: batcher.totals.retried == 1)
    draining = threading.Thread(target=batcher.stop)
    draining.start()
    until(lambda: batcher.state == State.STOPPING)
    assert batcher.stop(drain=False) == [operation]
    draining.join(PATIENCE)
    assert not draining.is_alive()


def test_b11_enqueue_many_by_a_callback_is_checked_before_any_is_accepted(batcher: Batcher) -> None:
    errors: list[str] = []

    def on_batch(batch: list[Operation]) -> None:
        if batch[0].attempt > 1:
            return
        fresh = Operation(watcher, 1, "fresh")
        batcher.enqueue(batch[0])
        for bad in ([fresh, batch[0]], [fresh, batch[1], batch[1]]):
            try:
                batcher.enqueue_many(bad)
            except AlreadyEnqueuedError:
                errors.append("fresh" if fresh._where is None else "accepted")
        batcher.enqueue_many([fresh, batch[1]])

    seen = Watcher(on_batch)
    watcher = seen
    batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(2)])
    assert watcher.wait(PATIENCE)
    assert errors == ["fresh", "fresh"]
    assert batcher.totals.done == 3


def test_b2_an_ended_operation_repeated_by_many_threads_is_accepted_once() -> None:
    batcher = Batcher(flush_interval=0.001)
    watcher = Watcher(Seen())
    with batcher, ThreadPoolExecutor(4) as pool:
        operation = Operation(watcher, 1, None)
        batcher.enqueue(operation)
        accepted = 1
        for _ in range(200):
            assert watcher.wait(PATIENCE)
            barrier = threading.Barrier(4)

            def attempt(_: int, barrier: Any = barrier) -> int:
                barrier.wait()
                try:
                    batcher.enqueue(operation)
                except AlreadyEnqueuedError:
                    return 0
                return 1

            accepted += sum(pool.map(attempt, range(4)))
        assert watcher.wait(PATIENCE)
        assert batcher.totals.done == accepted


def test_on_failure_is_not_allowed_to_wait_for_itself(batcher: Batcher) -> None:
    errors: list[str] = []

    def fail(batch: list[Operation]) -> None:
        raise OSError

    def on_failure(operations: list[Operation], error: BaseException) -> None:
        try:
            watcher.wait()
        except ImproperOrderError as refusal:
            errors.append(str(refusal))

    watcher = Watcher(fail, on_failure=on_failure)
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    assert len(errors) == 1


def test_a_watcher_keeps_no_batcher_alive() -> None:
    watcher = Watcher(Seen())
    for _ in range(3):
        with Batcher() as batcher:
            batcher.enqueue(Operation(watcher, 1, None))
        assert watcher.wait()
        del batcher
    watcher._home = None
    gc.collect()
    assert not watcher._batchers.valuerefs()


def test_b10_a_limiter_starts_empty_in_a_forked_child() -> None:
    limiter = ProvisionedResource(100)
    limiter.grant(100, 100)  # set aside in the parent, and never released
    child = os.fork()
    if child == 0:
        os._exit(0 if limiter.grant(100, 100).amount == 100 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_import_starts_no_thread_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, threading, dispatcher;"
        "heavy = {'redis', 'pyspark', 'prometheus_client', 'rich'} & set(sys.modules);"
        "sys.exit(f'{heavy} {threading.active_count()}' if heavy or "
        "threading.active_count() > 1 else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_application_configures_logging() -> None:
    assert logging.getLogger("dispatcher").handlers == []
