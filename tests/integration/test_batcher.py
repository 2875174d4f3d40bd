"""A Batcher on its real threads: what users see, and what only threads can break."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tenacity import wait_fixed

from dispatcher import (
    AlreadyEnqueuedError,
    Batcher,
    BatcherStoppedError,
    BufferFullError,
    DispatcherError,
    Event,
    ForkedError,
    ImproperOrderError,
    NoOperationError,
    NoWatcherError,
    Operation,
    ProvisionedResource,
    Retry,
    State,
    TooExpensiveError,
    TooManyAttemptsError,
    Watcher,
)

PATIENCE = 30.0


class Seen:
    """A callback that remembers; it can be held until the test lets go."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[Any]] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        if not held:
            self.gate.set()

    def __call__(self, batch: list[Operation]) -> None:
        self.batches.append([operation.payload for operation in batch])
        self.entered.release()
        assert self.gate.wait(PATIENCE)

    @property
    def payloads(self) -> list[Any]:
        return [payload for batch in self.batches for payload in batch]


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    made = Batcher(flush_interval=0.01)
    made.start()
    yield made
    made.stop(drain=False)


def eventually(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        os.sched_yield()


# In and out.


def test_what_is_enqueued_comes_back_in_batches(batcher: Batcher) -> None:
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


def test_async_callbacks_run_on_one_loop_thousands_at_once(batcher: Batcher) -> None:
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


def test_plain_callbacks_run_on_threads_many_at_once(batcher: Batcher) -> None:
    barrier = threading.Barrier(200)
    watcher = Watcher(lambda batch: barrier.wait(PATIENCE))
    batcher.enqueue_many([Operation(watcher, 1, n) for n in range(200)])
    assert watcher.wait(PATIENCE)
    assert batcher.totals.failed == 0


def test_a_plain_function_that_returns_a_coroutine_is_told_what_to_do(
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


def test_enqueue_async_waits_for_a_place_without_holding_up_the_loop() -> None:
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


# Laws of order, under threads.


def test_b1_keys_keep_their_order_under_load_and_failures(batcher: Batcher) -> None:
    done: dict[str, list[int]] = {key: [] for key in "abcdefgh"}
    busy: dict[str, threading.Lock] = {key: threading.Lock() for key in "abcdefgh"}
    failures = iter(range(1000))

    def on_batch(batch: list[Operation]) -> None:
        keys = {str(operation.key) for operation in batch}
        for key in keys:
            assert busy[key].acquire(blocking=False), "two batches of one key at once"
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


def test_b2_sixteen_threads_lose_and_double_nothing() -> None:
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


def test_b2_the_seeds_retry_from_within_the_callback_never_blocks() -> None:
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


# Stopping.


def test_b5_stop_wakes_every_blocked_enqueue() -> None:
    batcher = Batcher(max_buffer_size=1, max_concurrent_batches=1)
    seen = Seen(held=True)
    watcher = Watcher(seen)
    batcher.start()
    batcher.enqueue(Operation(watcher, 1, "in flight"))
    assert seen.entered.acquire(timeout=PATIENCE)
    batcher.enqueue(Operation(watcher, 1, "buffered"))
    outcomes: list[object] = []

    def blocked() -> None:
        try:
            batcher.enqueue(Operation(watcher, 1, "blocked"))
        except BatcherStoppedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=blocked) for _ in range(5)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(batcher._buffer._line) == 5)
    stopping = threading.Thread(target=lambda: outcomes.append(batcher.stop(drain=False)))
    stopping.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(outcomes) == 5
    assert batcher.state == State.STOPPING
    seen.gate.set()
    stopping.join(PATIENCE)
    assert [o.payload for o in batcher.returned] == ["buffered"]
    assert seen.payloads == ["in flight"]
    assert batcher.needs_capacity == 0


def test_b5_a_pause_does_not_delay_the_stop() -> None:
    batcher = Batcher(pause_time=3600)
    batcher.start()
    batcher.pause()
    eventually(lambda: batcher.state == State.PAUSED)
    operation = Operation(Watcher(Seen()), 1, "a")
    batcher.enqueue(operation)
    started = time.monotonic()
    assert batcher.stop(drain=False) == [operation]
    assert time.monotonic() - started < PATIENCE


def test_b5_stop_with_drain_sends_what_is_buffered_for_at_most_timeout() -> None:
    seen = Seen()
    watcher = Watcher(seen, max_batch_size=1)
    batcher = Batcher(rate_limiter=ProvisionedResource(20), flush_interval=100)
    batcher.start()
    batcher.enqueue_many([Operation(watcher, 2, n, batchable=True) for n in range(100)])
    returned = batcher.stop(timeout=0.3)
    assert 0 < len(seen.payloads) < 100
    assert seen.payloads + [o.payload for o in returned] == list(range(100))
    assert batcher.stop() == returned
    assert all(o.attempt == 0 for o in returned)


def test_b5_stop_returns_what_waits_out_a_back_off(batcher: Batcher) -> None:
    def fail(batch: list[Operation]) -> None:
        raise OSError("refused")

    watcher = Watcher(fail, retry=wait_fixed(3600))
    operation = Operation(watcher, 1, "a")
    batcher.enqueue(operation)
    eventually(lambda: batcher.totals.retried == 1)
    assert batcher.stop(drain=False) == [operation]


def test_leaving_by_an_exception_stops_at_once_and_keeps_what_was_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watcher = Watcher(Seen())
    batcher = Batcher(flush_interval=3600)

    def interrupted() -> None:
        with batcher:
            batcher.enqueue(Operation(watcher, 1, "a", batchable=True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [o.payload for o in batcher.returned] == ["a"]
    assert "1 operations were not sent" in caplog.text


def test_a_cancelled_task_stops_its_batcher() -> None:
    async def scenario() -> Batcher:
        batcher = Batcher(flush_interval=3600)
        inside = asyncio.Event()

        async def work() -> None:
            async with batcher:
                await batcher.enqueue_async(Operation(Watcher(Seen()), 1, "a", batchable=True))
                inside.set()
                await asyncio.sleep(3600)

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return batcher

    batcher = asyncio.run(scenario())
    assert batcher.state == State.STOPPED
    assert [o.payload for o in batcher.returned] == ["a"]


def test_stopping_under_fire_accounts_for_every_operation() -> None:
    for _ in range(20):
        seen = Seen()
        watcher = Watcher(seen, max_batch_size=10)
        batcher = Batcher(max_buffer_size=50, flush_interval=0.001)
        batcher.start()
        accepted: list[int] = []
        refused: list[int] = []
        numbers = iter(range(1_000_000))

        def feed(
            batcher: Batcher = batcher,
            watcher: Watcher = watcher,
            accepted: list[int] = accepted,
            refused: list[int] = refused,
            numbers: Iterator[int] = numbers,
        ) -> None:
            while not refused:
                number = next(numbers)
                try:
                    batcher.enqueue(Operation(watcher, 1, number, batchable=number % 3 > 0))
                except BatcherStoppedError:
                    refused.append(number)
                else:
                    accepted.append(number)

        def feed_many(
            batcher: Batcher = batcher,
            watcher: Watcher = watcher,
            accepted: list[int] = accepted,
            refused: list[int] = refused,
            numbers: Iterator[int] = numbers,
        ) -> None:
            while not refused:
                some = [next(numbers) for _ in range(30)]
                try:
                    batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in some])
                except BatcherStoppedError as error:
                    accepted.extend(some[: error.accepted])
                    refused.extend(some[error.accepted :] or [-1])
                else:
                    accepted.extend(some)

        threads = [threading.Thread(target=f) for f in (feed, feed, feed_many)]
        for thread in threads:
            thread.start()
        assert seen.entered.acquire(timeout=PATIENCE)
        returned = batcher.stop(drain=False)
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(seen.payloads + [o.payload for o in returned]) == sorted(accepted)
        assert batcher.operations_in_buffer == 0
        assert batcher.needs_capacity == 0


# B6: what goes wrong in user code.


def test_b6_a_callback_that_raises_is_reported_and_harms_nothing(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    heard = threading.Event()

    def listen(event: Event) -> None:
        events.append(event)
        heard.set()

    def fail(batch: list[Operation]) -> None:
        raise ValueError("broken callback")

    seen = Seen()
    good, bad = Watcher(seen), Watcher(fail)
    with batcher.add_listener(listen, "batch-failed"):
        batcher.enqueue(Operation(bad, 1, "bad"))
        batcher.enqueue(Operation(good, 1, "good"))
        assert bad.wait(PATIENCE)
        assert good.wait(PATIENCE)
        assert heard.wait(PATIENCE)
    assert seen.payloads == ["good"]
    assert isinstance(events[0].metadata, ValueError)
    assert "Traceback" in caplog.text
    assert "broken callback" in caplog.text


def test_b6_even_system_exit_in_a_callback_fails_only_its_batch(batcher: Batcher) -> None:
    def leave(batch: list[Operation]) -> None:
        raise SystemExit(3)

    async def cancel(batch: list[Operation]) -> None:
        raise asyncio.CancelledError

    for callback in (leave, cancel):
        watcher = Watcher(callback)
        batcher.enqueue(Operation(watcher, 1, None))
        assert watcher.wait(PATIENCE)
    assert batcher.totals.failed == 2


def test_b6_a_listener_that_raises_or_hangs_slows_nothing(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    release, called = threading.Event(), threading.Event()

    def hang(event: Event) -> None:
        called.set()
        release.wait(PATIENCE)
        raise RuntimeError("broken listener")

    batcher.add_listener(hang)
    batcher.pause(0.001)
    assert called.wait(PATIENCE)
    watcher = Watcher(Seen())
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    release.set()
    batcher.stop()
    assert "broken listener" in caplog.text


def test_failed_operations_are_handed_over_before_wait_returns(batcher: Batcher) -> None:
    handed: list[object] = []

    def fail(batch: list[Operation]) -> None:
        raise OSError("no")

    async def on_failure(operations: list[Operation], error: BaseException) -> None:
        await asyncio.sleep(0)
        handed.append((operations[0].payload, str(error)))

    watcher = Watcher(fail, on_failure=on_failure)
    batcher.enqueue(Operation(watcher, 1, "a"))
    assert watcher.wait(PATIENCE)
    assert handed == [("a", "no")]


def test_a_callback_may_do_what_it_likes_with_its_list(batcher: Batcher) -> None:
    def clear(batch: list[Operation]) -> None:
        batch.clear()

    watcher = Watcher(clear)
    batcher.enqueue_many([Operation(watcher, 2, n, batchable=True) for n in range(3)])
    assert watcher.wait(PATIENCE)
    assert batcher.totals.done == 3
    assert batcher.needs_capacity == 0


# B9 to B11.


def test_b9_throughput_is_not_bound_by_the_flush_interval() -> None:
    seen = Seen()
    watcher = Watcher(seen)
    with Batcher(max_buffer_size=10, flush_interval=3600) as batcher:
        for number in range(1000):  # a hundred buffers, and not one hour
            batcher.enqueue(Operation(watcher, 1, number, batchable=True))
        batcher.flush()
        assert watcher.wait(PATIENCE)


def test_b10_a_forked_child_gets_an_error_instead_of_hanging(batcher: Batcher) -> None:
    watcher = Watcher(Seen())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        names = []
        for call in (
            lambda: batcher.enqueue(Operation(watcher, 1, None)),
            lambda: batcher.enqueue_many([Operation(watcher, 1, None)]),
            batcher.flush,
            batcher.stop,
            watcher.wait,
        ):
            try:
                call()
                names.append("nothing")
            except ForkedError:
                names.append("ForkedError")
            except BaseException as error:
                names.append(type(error).__name__)
        with Batcher() as fresh:  # a new one works
            again = Watcher(lambda batch: None)
            fresh.enqueue(Operation(again, 1, None))
        names.append(str(fresh.totals.done))
        os.write(write, " ".join(names).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert said.split() == [
        "ForkedError",
        "ForkedError",
        "ForkedError",
        "ForkedError",
        "nothing",
        "1",
    ]


def test_b11_enqueue_many_checks_all_before_it_accepts_any() -> None:
    watcher = Watcher(Seen(), max_attempts=1)
    batcher = Batcher(rate_limiter=ProvisionedResource(100))
    good = [Operation(watcher, 1, n, batchable=True) for n in range(3)]
    enqueued = Operation(watcher, 1, None)
    batcher.enqueue(enqueued)
    for bad, error in [
        ("text", NoOperationError),
        (Operation(None, 1, None), NoWatcherError),
        (Operation(watcher, 101, None), TooExpensiveError),
        (enqueued, AlreadyEnqueuedError),
        (good[0], AlreadyEnqueuedError),
    ]:
        with pytest.raises(error):
            batcher.enqueue_many([*good, bad])  # type: ignore[list-item]
        assert batcher.needs_capacity == 1
        assert all(o._where is None for o in good)
    batcher.enqueue_many(good)
    assert batcher.operations_in_buffer == 4


def test_b11_an_interrupted_enqueue_many_says_how_many_were_accepted() -> None:
    watcher = Watcher(Seen())
    batcher = Batcher(max_buffer_size=5)
    with pytest.raises(BufferFullError) as caught:
        batcher.enqueue_many(
            [Operation(watcher, 1, n, batchable=True) for n in range(8)], timeout=0
        )
    assert caught.value.accepted == 5
    assert batcher.operations_in_buffer == 5
    strict = Batcher(max_buffer_size=5, error_on_full_buffer=True)
    for size in (6, 1000):
        with pytest.raises(BufferFullError) as caught:
            strict.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(size)])
        assert caught.value.accepted == 0
        assert strict.operations_in_buffer == 0
    strict.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(5)])


# Order of calls, and bad input.


def test_calls_out_of_order_say_what_to_do() -> None:
    batcher = Batcher()
    for call in (batcher.stop, batcher.pause, batcher.resume, batcher.flush, batcher.drain):
        with pytest.raises(ImproperOrderError, match=r"start\(\)"):
            call()
    batcher.start()
    with pytest.raises(ImproperOrderError, match="is running"):
        batcher.start()
    batcher.stop()
    for call in (batcher.start, batcher.pause, batcher.flush, batcher.drain):
        with pytest.raises(ImproperOrderError, match="stop"):
            call()
    with pytest.raises(BatcherStoppedError):
        batcher.enqueue(Operation(Watcher(Seen()), 1, None))


def test_what_cannot_be_enqueued_says_why() -> None:
    batcher = Batcher()
    with pytest.raises(NoOperationError, match="not 'text'"):
        batcher.enqueue("text")  # type: ignore[arg-type]
    with pytest.raises(NoWatcherError, match="watcher is None; give it a Watcher"):
        batcher.enqueue(Operation(None, 1, None))
    with pytest.raises(NoWatcherError):
        batcher.enqueue(Operation("me", 1, None))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must be"):
        batcher.enqueue(Operation(Watcher(Seen()), 1, None), timeout="1s")  # type: ignore[arg-type]
    assert issubclass(NoWatcherError, DispatcherError)
    late = Operation(None, 1, None)
    late.watcher = Watcher(Seen())
    batcher.enqueue(late)


def test_waiting_for_oneself_is_refused(batcher: Batcher) -> None:
    errors: list[str] = []

    def wait_for_myself(batch: list[Operation]) -> None:
        for call in (batcher.stop, batcher.drain, watcher.wait):
            try:
                call()
            except ImproperOrderError as error:
                errors.append(str(error))

    watcher = Watcher(wait_for_myself)
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    assert len(errors) == 3
    assert all("would wait for itself" in error for error in errors)


def test_a_listener_may_stop_the_batcher() -> None:
    batcher = Batcher()
    stopped = threading.Event()

    def stop(event: Event) -> None:
        batcher.stop()
        stopped.set()

    batcher.add_listener(stop, "pause")
    batcher.start()
    batcher.pause(0.01)
    assert stopped.wait(PATIENCE)


def test_a_limiter_that_breaks_stops_the_batcher_rather_than_hang_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ProvisionedResource):
        def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> Any:
            raise RuntimeError("broken limiter")

    watcher = Watcher(Seen())
    batcher = Batcher(rate_limiter=Broken(10))
    batcher.start()
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    assert batcher.state == State.STOPPED
    assert [o.payload for o in batcher.returned] == [None]
    assert "broken limiter" in caplog.text
    with pytest.raises(BatcherStoppedError):
        batcher.enqueue(Operation(watcher, 1, None))


# Draining, waiting, events.


def test_drain_sends_what_waits_without_waiting_for_company() -> None:
    watcher = Watcher(Seen())
    with Batcher(flush_interval=3600) as batcher:
        batcher.enqueue(Operation(watcher, 1, None, batchable=True))
        assert batcher.drain(PATIENCE)
        assert batcher.needs_capacity == 0
        held = Seen(held=True)
        batcher.enqueue(Operation(Watcher(held), 1, None))
        assert not batcher.drain(0.01)
        held.gate.set()


def test_wait_is_for_its_own_operations_only(batcher: Batcher) -> None:
    held = Seen(held=True)
    slow, quick = Watcher(held), Watcher(Seen())
    batcher.enqueue(Operation(slow, 1, None))
    batcher.enqueue(Operation(quick, 1, None))
    assert quick.wait(PATIENCE)
    assert not slow.wait(0.01)
    held.gate.set()
    assert slow.wait(PATIENCE)
    assert Watcher(Seen()).wait()


def test_one_watcher_on_two_batchers_waits_for_both(batcher: Batcher) -> None:
    seen = Seen()
    watcher = Watcher(seen)
    with Batcher(flush_interval=0.01) as other:
        for number in range(50):
            (batcher if number % 2 else other).enqueue(Operation(watcher, 1, number))
        assert watcher.wait(PATIENCE)
    assert sorted(seen.payloads) == list(range(50))


def test_the_life_of_a_batcher_is_told_in_events() -> None:
    names: list[str] = []
    limiter = ProvisionedResource(1000)
    limiter.add_listener(lambda event: names.append(f"limiter {event.name}"))
    batcher = Batcher(rate_limiter=limiter)
    batcher.add_listener(lambda event: names.append(event.name))
    with batcher:
        batcher.pause(0.001)
        eventually(lambda: "resume" in names)
    assert names[-1] == "shutdown"
    assert [name for name in names if name in ("pause", "resume")] == ["pause", "resume"]
    for name in ("provision-start", "provision-done", "capacity", "shutdown"):
        assert f"limiter {name}" in names


def test_a_limiter_that_was_started_is_left_running() -> None:
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


def test_a_process_that_ends_without_stop_says_what_it_left() -> None:
    code = (
        "from dispatcher import *; b = Batcher(flush_interval=3600); b.start();"
        "b.enqueue(Operation(Watcher(print), 1, None, batchable=True))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "1 operations were not sent: call stop()" in done.stderr


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
        patch.setattr(batcher, "_await", interrupted)
        with pytest.raises(KeyboardInterrupt):
            batcher.stop()
    held.gate.set()
    assert batcher.stop(drain=False) == operations[len(held.batches) :]
    assert batcher.state == State.STOPPED


def test_b5_a_second_stop_cuts_a_long_drain_short(batcher: Batcher) -> None:
    def later(batch: list[Operation]) -> None:
        raise Retry(after=3600)

    operation = Operation(Watcher(later), 1, "a")
    batcher.enqueue(operation)
    eventually(lambda: batcher.totals.retried == 1)
    draining = threading.Thread(target=batcher.stop)
    draining.start()
    eventually(lambda: batcher.state == State.STOPPING)
    assert batcher.stop(drain=False) == [operation]
    draining.join(PATIENCE)
    assert not draining.is_alive()


def test_b11_enqueue_many_with_ones_own_is_checked_before_any_is_accepted(batcher: Batcher) -> None:
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


def test_on_failure_may_not_wait_for_itself(batcher: Batcher) -> None:
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
    assert list(watcher._batchers) == []


def test_b10_a_limiter_begins_anew_in_a_forked_child() -> None:
    limiter = ProvisionedResource(100)
    limiter.grant(100, 100)  # set aside for ever, in the parent
    child = os.fork()
    if child == 0:
        os._exit(0 if limiter.grant(100, 100).amount == 100 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_nothing_is_started_and_nothing_heavy_imported_on_import() -> None:
    code = (
        "import sys, threading, dispatcher;"
        "heavy = {'redis', 'pyspark', 'prometheus_client', 'rich'} & set(sys.modules);"
        "sys.exit(f'{heavy} {threading.active_count()}' if heavy or "
        "threading.active_count() > 1 else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_logging_is_left_to_the_application() -> None:
    assert logging.getLogger("dispatcher").handlers == []
