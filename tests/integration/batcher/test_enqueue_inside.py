"""Callbacks that enqueue: which operations they may enqueue, where, and that they never wait for
themselves."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dispatcher import AlreadyEnqueuedError, Batcher, BufferFullError, Operation, Watcher
from tests.clocks import JumpingClock
from tests.waiting import until

TIME = 20.0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_callback_that_enqueues_into_a_full_buffer_does_not_wait_for_itself(
    asynchronous: bool,
) -> None:
    refused: list[BufferFullError] = []
    entered = threading.Event()
    filled = threading.Event()

    def feed(batch: list[Operation]) -> None:
        entered.set()
        filled.wait(TIME)
        if batch[0].payload == "first":
            try:
                batcher.enqueue(Operation(watcher, 1, "more"))
            except BufferFullError as error:
                refused.append(error)

    async def feed_async(batch: list[Operation]) -> None:
        entered.set()
        await asyncio.to_thread(filled.wait, TIME)
        if batch[0].payload == "first":
            try:
                await batcher.enqueue_async(Operation(watcher, 1, "more"))
            except BufferFullError as error:
                refused.append(error)

    watcher = Watcher(feed_async if asynchronous else feed)
    with Batcher(max_buffer_size=2, max_concurrent_batches=1, flush_interval=0.01) as batcher:
        batcher.enqueue(Operation(watcher, 1, "first"))
        assert entered.wait(TIME)
        batcher.enqueue_many([Operation(watcher, 1, n) for n in range(2)])
        filled.set()
        until(lambda: refused)
        assert batcher.drain(TIME)
    assert batcher.totals.done == 3


def test_a_callback_waits_for_a_place_that_another_one_frees() -> None:
    entered = threading.Barrier(3)
    free = threading.Event()
    done: list[object] = []

    def feed(batch: list[Operation]) -> None:
        payload = batch[0].payload
        if payload in ("waits", "ends"):
            entered.wait(TIME)
        if payload == "ends":
            free.wait(TIME)
        elif payload == "waits":
            batcher.enqueue(Operation(watcher, 1, "more"))
        done.append(payload)

    watcher = Watcher(feed)
    with Batcher(max_buffer_size=1, max_concurrent_batches=2, flush_interval=0.01) as batcher:
        batcher.enqueue(Operation(watcher, 1, "waits"))
        batcher.enqueue(Operation(watcher, 1, "ends"))
        entered.wait(TIME)
        batcher.enqueue(Operation(watcher, 1, "fills"))
        until(lambda: batcher._buffer.line or "waits" in done)
        free.set()
        assert batcher.drain(TIME)
    assert sorted(map(str, done)) == ["ends", "fills", "more", "waits"]


def test_a_callback_that_was_abandoned_does_not_wait_for_the_key_it_holds() -> None:
    began = threading.Event()
    refused = threading.Event()
    end = threading.Event()
    clock = JumpingClock()
    other = Watcher(lambda batch: end.wait(TIME), max_operation_time=3600)

    def feed(batch: list[Operation]) -> None:
        if batch[0].payload == "first":
            began.set()
            batcher.enqueue(Operation(watcher, 1, "second", key="a"))
            try:
                batcher.enqueue(Operation(watcher, 1, "third", key="a"))
            except BufferFullError:
                refused.set()

    watcher = Watcher(feed, max_operation_time=60)
    with Batcher(max_buffer_size=1, flush_interval=0.01, clock=clock) as batcher:
        batcher.enqueue(Operation(other, 1, None))
        until(lambda: batcher.inflight)
        batcher.enqueue(Operation(watcher, 1, "first", key="a"))
        assert began.wait(TIME)
        clock.advance(61)
        batcher.flush()
        until(lambda: batcher.totals.batches_abandoned)
        end.set()
        assert refused.wait(TIME)
        assert batcher.drain(TIME)
    assert (batcher.totals.abandoned, batcher.totals.done) == (1, 2)


def test_b2_an_operation_in_flight_is_refused_by_another_batcher() -> None:
    errors: list[AlreadyEnqueuedError] = []
    raised: list[int] = []

    def handle(batch: list[Operation]) -> None:
        raised.append(batch[0].attempt)
        try:
            other.enqueue(batch[0])
        except AlreadyEnqueuedError as error:
            errors.append(error)

    watcher = Watcher(handle)
    with Batcher() as other, Batcher() as batcher:
        batcher.enqueue(Operation(watcher, 1, None))
    assert raised == [1]
    [error] = errors
    assert error.elsewhere
    assert "in another Batcher" in str(error)
    assert other.totals.batches == 0
