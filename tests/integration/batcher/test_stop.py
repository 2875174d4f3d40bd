"""Stopping a Batcher, and the operations that are left then: law B5."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from tenacity import wait_fixed

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    Operation,
    ProvisionedResource,
    State,
    Watcher,
)
from tests.seen import PATIENCE, Seen
from tests.waiting import until

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
    until(lambda: len(batcher._buffer.line) == 5)
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
    until(lambda: batcher.state == State.PAUSED)
    operation = Operation(Watcher(Seen()), 1, "a")
    batcher.enqueue(operation)
    started = time.monotonic()
    assert batcher.stop(drain=False) == [operation]
    assert time.monotonic() - started < PATIENCE


def test_b5_stop_sends_waiting_operations_for_at_most_its_timeout() -> None:
    seen = Seen()
    watcher = Watcher(seen, max_batch_size=1)
    batcher = Batcher(rate_limiter=ProvisionedResource(20), flush_interval=100)
    batcher.start()
    batcher.enqueue_many([Operation(watcher, 2, n, batchable=True) for n in range(100)])
    assert seen.entered.acquire(timeout=PATIENCE)
    returned = batcher.stop(timeout=1)
    assert 0 < len(seen.payloads) < 100
    assert seen.payloads + [o.payload for o in returned] == list(range(100))
    assert batcher.stop() == returned
    assert all(o.attempt == 0 for o in returned)


def test_b5_stop_returns_operations_that_wait_for_a_retry(batcher: Batcher) -> None:
    def fail(batch: list[Operation]) -> None:
        raise OSError("refused")

    watcher = Watcher(fail, retry=wait_fixed(3600))
    operation = Operation(watcher, 1, "a")
    batcher.enqueue(operation)
    until(lambda: batcher.totals.retried == 1)
    assert batcher.stop(drain=False) == [operation]


def test_an_exception_in_the_with_block_stops_the_batcher_and_keeps_unsent_operations(
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


def test_stopping_while_threads_enqueue_accounts_for_every_operation() -> None:
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
