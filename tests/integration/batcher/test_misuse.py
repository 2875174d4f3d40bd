"""Errors in user code and in the order of calls: laws B6, B9 to B11."""

from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

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
    State,
    TooExpensiveError,
    Watcher,
)
from tests.seen import PATIENCE, Seen
from tests.waiting import until

# B6: errors in user code.


def test_b6_a_callback_that_raises_is_reported_and_fails_only_its_batch(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    reported = threading.Event()

    def listen(event: Event) -> None:
        events.append(event)
        reported.set()

    def fail(batch: list[Operation]) -> None:
        raise ValueError("broken callback")

    seen = Seen()
    good, bad = Watcher(seen), Watcher(fail)
    with batcher.add_listener(listen, "batch-failed"):
        batcher.enqueue(Operation(bad, 1, "bad"))
        batcher.enqueue(Operation(good, 1, "good"))
        assert bad.wait(PATIENCE)
        assert good.wait(PATIENCE)
        assert reported.wait(PATIENCE)
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


def test_b6_a_listener_that_raises_or_hangs_slows_no_batch(
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


def test_a_callback_may_change_its_list(batcher: Batcher) -> None:
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
        for number in range(1000):  # a hundred full buffers, and no hour of waiting
            batcher.enqueue(Operation(watcher, 1, number, batchable=True))
        batcher.flush()
        assert watcher.wait(PATIENCE)


def test_b10_a_call_in_a_forked_child_raises_instead_of_hanging(batcher: Batcher) -> None:
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
        with Batcher() as fresh:  # a new Batcher works
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


def test_b11_the_error_of_enqueue_many_says_how_many_were_accepted() -> None:
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


# Order of calls, and wrong arguments.


def test_the_errors_of_calls_in_the_wrong_order_say_what_to_do() -> None:
    batcher = Batcher()
    for call in (batcher.pause, batcher.resume, batcher.flush, batcher.drain):
        with pytest.raises(ImproperOrderError, match=r"start\(\)"):
            call()
    watcher = Watcher(Seen())
    batcher.enqueue(Operation(watcher, 1, None))
    with pytest.raises(ImproperOrderError, match=r"wait\(\) needs .* call start\(\) first"):
        watcher.wait()  # it would wait without end
    batcher.start()
    with pytest.raises(ImproperOrderError, match="is running"):
        batcher.start()
    batcher.stop()
    for call in (batcher.start, batcher.pause, batcher.flush, batcher.drain):
        with pytest.raises(ImproperOrderError, match="stop"):
            call()
    with pytest.raises(BatcherStoppedError):
        batcher.enqueue(Operation(Watcher(Seen()), 1, None))


def test_the_error_for_an_object_that_cannot_be_enqueued_says_why() -> None:
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


def test_a_callback_that_would_wait_for_itself_is_refused(batcher: Batcher) -> None:
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


def test_a_limiter_that_raises_stops_the_batcher(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ProvisionedResource):
        def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> Any:
            raise RuntimeError("broken limiter")

    watcher = Watcher(Seen())
    batcher = Batcher(rate_limiter=Broken(10))
    received: list[Event] = []
    batcher.add_listener(received.append, "error")
    batcher.start()
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    batcher.stop()
    [error] = received
    assert isinstance(error.metadata, RuntimeError)
    assert error.message.startswith("the Batcher has failed and is stopped: RuntimeError")
    assert batcher.state == State.STOPPED
    assert [o.payload for o in batcher.returned] == [None]
    assert "broken limiter" in caplog.text
    with pytest.raises(BatcherStoppedError):
        batcher.enqueue(Operation(watcher, 1, None))


def test_b2_a_limiter_that_raises_during_a_plan_loses_no_operation() -> None:
    class Grant:
        def __init__(self, grant: Any) -> None:
            self.amount, self.fits, self.close = grant.amount, grant.fits, grant.close
            self._grant = grant

        def spend(self, cost: float) -> Any:
            if cost == 3:
                raise RuntimeError("broken limiter")
            return self._grant.spend(cost)

    class Broken(ProvisionedResource):
        def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> Any:
            return Grant(super().grant(up_to, at_least, claimant))

    seen = Seen()
    watcher = Watcher(seen)
    batcher = Batcher(rate_limiter=Broken(1_000))
    batcher.enqueue_many([Operation(watcher, cost, cost, key=cost) for cost in range(1, 4)])
    batcher.enqueue(Operation(watcher, 4, 4, key=3))
    batcher.enqueue_many([Operation(watcher, 5, n, batchable=True) for n in range(5, 8)])
    batcher.start()
    assert watcher.wait(PATIENCE)
    assert [o.payload for o in batcher.returned] == [3, 4, 5, 6, 7]
    assert (batcher.needs_capacity, batcher.inflight) == (3, 2), "only the batches that were raised"
    until(lambda: sorted(seen.payloads) == [1, 2])


@pytest.mark.parametrize("breaks", ["wake-up", "end", "stop"])
def test_stop_returns_although_the_limiter_raises_at_its_end(
    breaks: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ProvisionedResource):
        def _break(self, what: str) -> None:
            if what == breaks:
                raise RuntimeError("broken limiter")

        def add_wake_up(self, call: Any) -> Any:
            return SimpleNamespace(end=lambda: self._break("wake-up"))

        def publish(self, source: Any) -> Any:
            return SimpleNamespace(end=lambda: self._break("end"))

        def stop(self) -> None:
            self._break("stop")
            super().stop()

    limiter = Broken(10)
    batcher = Batcher(rate_limiter=limiter)
    batcher.start()
    assert batcher.stop() == []
    assert batcher.state == State.STOPPED
    assert "broken limiter" in caplog.text
    assert limiter.started == (breaks == "stop")


def test_b4_a_loop_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def scarce(thread: threading.Thread) -> None:
        if thread.name.endswith("-loop") and len(refused) < 2:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    seen: list[Operation] = []

    async def on_batch(batch: list[Operation]) -> None:
        seen.extend(batch)

    watcher = Watcher(on_batch)
    operation = Operation(watcher, 1, None)
    with Batcher(rate_limiter=ProvisionedResource(10)) as batcher:
        batcher.enqueue(operation)
        assert watcher.wait(PATIENCE)
    assert seen == [operation]
    assert len(refused) == 2
    assert "the system starts no more threads" in caplog.text
