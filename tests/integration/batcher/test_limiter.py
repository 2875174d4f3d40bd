"""The life of a limiter and of the Batchers that use it, and the threads that start() leaves."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from typing import Any

import pytest
from tenacity import wait_fixed

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    Event,
    ImproperOrderError,
    Operation,
    ProvisionedResource,
    State,
    Watcher,
)
from limiters import InFlight, Limits, MemoryLeaseManager, Rate, SharedResource
from limiters.errors import LimiterStoppedError
from tests.seen import PATIENCE, Seen
from tests.waiting import until


def shared() -> SharedResource:
    return SharedResource(shared_capacity=1_000, factor=100, lease_manager=MemoryLeaseManager())


def works(batcher: Batcher) -> bool:
    seen = Seen()
    watcher = Watcher(seen)
    batcher.enqueue(Operation(watcher, 1, "a"))
    return watcher.wait(PATIENCE) and seen.payloads == ["a"]


def test_the_last_batcher_that_uses_a_limiter_stops_it() -> None:
    limiter = shared()
    batchers = [Batcher(rate_limiter=limiter) for _ in range(3)]
    for batcher in batchers:
        batcher.start()
    for batcher in batchers:
        assert limiter.started
        assert works(batcher)
        assert batcher.stop() == []
    assert not limiter.started


@pytest.mark.parametrize("kind", ["threads", "coroutines"])
def test_n1_no_more_callbacks_run_than_the_limit_has_slots_and_all_are_free_at_the_end(
    kind: str,
) -> None:
    limiter = ProvisionedResource(Limits(tokens=Rate(1_000_000), calls=InFlight(3)))
    running, most = [0], [0]

    def enter() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])

    def on_thread(batch: list[Operation]) -> None:
        with lock:
            enter()
        time.sleep(0.001 * batch[0].payload)
        with lock:
            running[0] -= 1
        if batch[0].payload == 2:
            raise ValueError("some fail")

    async def on_loop(batch: list[Operation]) -> None:
        enter()
        await asyncio.sleep(0.001 * batch[0].payload)
        running[0] -= 1
        if batch[0].payload == 2:
            raise ValueError("some fail")

    lock = threading.Lock()
    callback: Any = on_thread if kind == "threads" else on_loop
    watcher = Watcher(
        callback, max_batch_size=2, batch_cost={"calls": 1}, retry=wait_fixed(0), max_attempts=2
    )
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many(
            [Operation(watcher, {"tokens": 1}, n % 4, batchable=bool(n % 3)) for n in range(200)]
        )
        assert watcher.wait(PATIENCE)
        assert 1 <= most[0] <= 3
        until(lambda: batcher.inflight == 0)
        assert batcher.needs_capacity == {}
        grant = limiter.grant({"calls": 3})
        assert grant.amount == {"calls": 3}
        grant.close()


def test_n4_an_abandoned_callback_keeps_its_slot_until_it_returns() -> None:
    limiter = ProvisionedResource(Limits(tokens=Rate(1_000), calls=InFlight(1)))
    go_on = threading.Event()
    hangs = Watcher(
        lambda batch: go_on.wait(PATIENCE), batch_cost={"calls": 1}, max_operation_time=0.05
    )
    seen = Seen()
    waits = Watcher(seen, batch_cost={"calls": 1})
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue(Operation(hangs, {"tokens": 1}, None))
        batcher.enqueue(Operation(waits, {"tokens": 1}, "next"))
        until(lambda: batcher.totals.abandoned == 1)
        assert not waits.wait(0.1)
        go_on.set()
        assert waits.wait(PATIENCE)
    assert seen.payloads == ["next"]


def test_a_limiter_that_the_user_started_is_stopped_by_the_user_only() -> None:
    with shared() as limiter:
        for _ in range(2):
            with Batcher(rate_limiter=limiter) as batcher:
                assert works(batcher)
            assert limiter.started
    assert not limiter.started


def test_a_batcher_cannot_start_on_a_limiter_that_was_stopped() -> None:
    limiter = shared()
    Batcher(rate_limiter=limiter).start()
    limiter.stop()
    late = Batcher(rate_limiter=limiter)
    for _ in range(2):
        with pytest.raises(ImproperOrderError, match="make a new one"):
            late.start()
        assert late.state is State.NEW


@pytest.mark.parametrize("waiting", [0, 3])
def test_stopping_the_limiter_of_a_running_batcher_is_an_error_and_an_event(
    waiting: int, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[Event] = []
    limiter = ProvisionedResource(10)
    limiter.start()
    batcher = Batcher(rate_limiter=limiter)
    batcher.add_listener(received.append, "error", "shutdown")
    batcher.start()
    watcher = Watcher(Seen(), max_batch_size=1)
    seen = Seen(held=True)
    held = Watcher(seen)
    batcher.enqueue(Operation(held, 10, "in flight"))
    assert seen.entered.acquire(timeout=PATIENCE)
    batcher.enqueue_many([Operation(watcher, 10, n) for n in range(waiting)])
    limiter.stop()
    until(lambda: received)
    assert received[0].name == "error"
    assert isinstance(received[0].metadata, LimiterStoppedError)
    assert "stop the Batcher first" in caplog.text
    with pytest.raises(BatcherStoppedError):
        batcher.enqueue(Operation(watcher, 1, None))
    seen.gate.set()
    assert [one.payload for one in batcher.stop()] == list(range(waiting))
    assert batcher.totals.done == 1, "what was in flight has ended"
    until(lambda: len(received) == 2)
    assert [event.name for event in received] == ["error", "shutdown"]


def test_stopping_the_limiter_before_the_first_turn_is_also_an_error() -> None:
    class Brief(ProvisionedResource):
        """A limiter that is stopped as soon as it was started, as by another thread."""

        def start(self) -> None:
            super().start()
            self.stop()

    received: list[Event] = []
    batcher = Batcher(rate_limiter=Brief(10))
    batcher.add_listener(received.append, "error")
    batcher.start()
    until(lambda: received)
    assert isinstance(received[0].metadata, LimiterStoppedError)
    assert batcher.stop() == []


def test_a_limiter_that_its_batcher_stops_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    for limiter in (shared(), ProvisionedResource(100)):
        with Batcher(rate_limiter=limiter) as batcher:
            works(batcher)
    assert "limiter-stopped" not in [vars(record).get("happening") for record in caplog.records]


def test_b10_limiters_in_use_in_the_parent_are_not_in_use_in_a_forked_child() -> None:
    limiter = ProvisionedResource(100)
    with Batcher(rate_limiter=limiter):
        child = os.fork()
        if child == 0:
            fresh = Batcher(rate_limiter=limiter)
            fresh.start()
            ran = limiter.started and works(fresh)
            fresh.stop()
            os._exit(0 if ran and not limiter.started else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert limiter.started


# Threads that start() leaves behind.


def test_b2_a_batcher_does_not_start_if_there_is_no_thread_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "dispatcher-engine":
            raise RuntimeError("can't start new thread")
        start(thread)

    limiter = shared()
    batcher = Batcher(rate_limiter=limiter)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            batcher.start()
    assert batcher.state is State.NEW
    assert not limiter.started
    batcher.start()  # now there is a thread
    assert works(batcher)
    assert batcher.stop() == []


def test_if_the_limiter_cannot_be_started_no_thread_of_the_batcher_is_left() -> None:
    class Refusing(ProvisionedResource):
        refusing = True

        def start(self) -> None:
            if self.refusing:
                raise OSError("no server")
            super().start()

    before = engines()
    limiter = Refusing(100)
    batcher = Batcher(rate_limiter=limiter)
    for _ in range(3):
        with pytest.raises(OSError, match="no server"):
            batcher.start()
        assert batcher.state is State.NEW
    until(lambda: engines() <= before)
    limiter.refusing = False
    with batcher:
        assert works(batcher)
        assert len(engines() - before) == 1


def engines() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "dispatcher-engine"}


def test_a_listener_of_a_batcher_that_is_never_started_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    batchers = [Batcher(rate_limiter=ProvisionedResource(1)) for _ in range(20)]
    for batcher in batchers:
        batcher.add_listener(print, "error")
    assert set(threading.enumerate()) <= before


def test_a_listener_receives_the_events_for_which_there_was_no_thread_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start
    refused: list[threading.Thread] = []
    received: list[Event] = []

    def scarce(thread: threading.Thread) -> None:
        if thread.name.endswith("-events") and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    batcher = Batcher()
    batcher.add_listener(received.append)
    with batcher:
        batcher.pause(0.01)
        batcher.resume()
    assert [event.name for event in received] == ["pause", "resume", "shutdown"]
    assert refused


# Watchers that are left in memory.


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("cost", [0, 1])
def test_no_watcher_is_kept_once_its_operations_have_ended(cost: float, key: Any) -> None:
    watchers = weakref.WeakSet[Watcher]()
    seen = Seen()
    with Batcher(rate_limiter=ProvisionedResource(100_000)) as batcher:
        for number in range(200):
            watcher = Watcher(seen)
            watchers.add(watcher)
            batcher.enqueue(Operation(watcher, cost, number, batchable=True, key=key))
            del watcher
        assert batcher.drain(PATIENCE)
        works(batcher)  # no thread holds the last of them any longer
        until(lambda: gc.collect() is None or len(watchers) <= 2)
    assert len(seen.payloads) == 200
