"""Interrupts of waiting calls, with the Batcher's threads: laws B2, B3, B5 and B11."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from dispatcher import Batcher, Operation, State, Watcher
from limiters import ProvisionedResource
from tests.interrupting import ERRORS, LONG, Alarm, each_point
from tests.waiting import until

SIZE = 5


class Recorder:
    """The operations that were made and those that were raised."""

    def __init__(self) -> None:
        self.seen: list[Operation] = []
        self.watcher = Watcher(self.seen.extend, max_batch_size=3)
        self.made: list[Operation] = []

    def make(self, count: int) -> list[Operation]:
        some = [Operation(self.watcher, 1, n, batchable=bool(n % 3)) for n in range(count)]
        self.made += some
        return some

    def check(self, batcher: Batcher, where: str) -> None:
        """Check that each accepted operation has ended once, and that all others can be
        enqueued."""
        assert batcher.drain(20), where
        assert len(set(self.seen)) == len(self.seen), where
        before = set(self.seen)
        for operation in self.made:
            if operation not in before:
                batcher.enqueue(operation, timeout=20)
        assert batcher.drain(20), where
        assert set(self.seen) == set(self.made), where
        assert len(self.seen) == len(self.made), where
        assert batcher.needs_capacity == batcher.operations_in_buffer == batcher.inflight == 0
        assert batcher._buffer.room == SIZE, where
        self.seen.clear()
        self.made.clear()


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    with Batcher(max_buffer_size=SIZE, flush_interval=0.005, audit_interval=0.1) as batcher:
        yield batcher


@pytest.mark.parametrize("error", ERRORS)
def test_b11_an_enqueue_many_interrupted_while_it_waits_loses_nothing(
    batcher: Batcher, error: type[BaseException]
) -> None:
    recorder = Recorder()

    def prepare() -> Callable[[], object]:
        some = recorder.make(3 * SIZE)
        return lambda: batcher.enqueue_many(some)

    # The number of points differs, since it depends on how often the call wakes up: some are
    # enough.
    for where in itertools.islice(
        each_point(prepare, error=error, every_bytecode=True, step=5), None if LONG else 150
    ):
        recorder.check(batcher, where)


@pytest.mark.parametrize("error", ERRORS)
def test_b2_an_enqueue_interrupted_while_it_waits_loses_nothing(
    batcher: Batcher, error: type[BaseException]
) -> None:
    recorder = Recorder()

    def prepare() -> Callable[[], object]:
        before, [last] = recorder.make(3 * SIZE), recorder.make(1)

        def call() -> None:
            batcher.enqueue(last)

        def feed() -> None:
            batcher.enqueue_many(before)

        feeding = threading.Thread(target=feed)
        feeding.start()
        until(lambda: batcher.operations_in_buffer or recorder.seen)
        return call

    for where in itertools.islice(
        each_point(prepare, error=error, every_bytecode=True, step=5), None if LONG else 150
    ):
        recorder.check(batcher, where)


def test_b2_an_enqueue_async_cancelled_while_it_waits_loses_nothing(batcher: Batcher) -> None:
    recorder = Recorder()

    async def scenario() -> None:
        for waits in range(30):
            some = [batcher.enqueue_async(one) for one in recorder.make(3 * SIZE)]
            tasks = [asyncio.create_task(one) for one in some]
            for _ in range(waits):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(recorder.check, batcher, f"after {waits} steps")

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["drain", "pause", "wait", "flush", "resume"])
def test_b5_a_batcher_works_after_an_interrupted_call(batcher: Batcher, call: str) -> None:
    recorder = Recorder()

    def prepare() -> Callable[[], object]:
        batcher.resume()
        batcher.enqueue_many(recorder.make(SIZE))
        calls: dict[str, Callable[[], object]] = {
            "drain": batcher.drain,
            "pause": lambda: batcher.pause(0.001),
            "wait": recorder.watcher.wait,
            "flush": batcher.flush,
            "resume": batcher.resume,
        }
        return calls[call]

    for where in itertools.islice(
        each_point(prepare, every_bytecode=True, step=5), None if LONG else 150
    ):
        recorder.check(batcher, where)


@pytest.mark.parametrize("drain", [True, False])
def test_b5_an_interrupted_stop_gives_back_operations_that_were_not_sent(drain: bool) -> None:
    made: list[tuple[Batcher, Recorder]] = []

    def prepare() -> Callable[[], object]:
        limiter = ProvisionedResource(1)  # too little for any of the operations
        batcher, recorder = Batcher(rate_limiter=limiter), Recorder()
        batcher.start()
        batcher.enqueue_many(recorder.make(3))
        made.append((batcher, recorder))
        return lambda: batcher.stop(drain=drain, timeout=0.01)

    for where in itertools.islice(
        each_point(prepare, error=Alarm, every_bytecode=True, step=5), None if LONG else 150
    ):
        batcher, recorder = made.pop()
        batcher.stop(drain=False)
        assert batcher.state == State.STOPPED, where
        ended = [*recorder.seen, *batcher.returned]
        assert sorted(map(id, ended)) == sorted(map(id, recorder.made)), where
        assert batcher.needs_capacity == 0, where


def test_b5_the_error_of_an_interrupted_stop_says_how_many_were_not_sent() -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(1))
    watcher = Watcher(lambda batch: None)
    batcher.start()
    batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(100)])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    batcher._engine_thread._await_end = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt) as caught:
        batcher.stop(timeout=0.01)
    [note] = caught.value.__notes__
    assert note == (
        f"stop() was interrupted: {len(batcher.returned)} operations were not sent; "
        "they are in Batcher.returned"
    )
    assert 90 <= len(batcher.returned) <= 100


def test_stopping_a_batcher_that_was_never_started_gives_back_its_operations() -> None:
    batcher, recorder = Batcher(), Recorder()
    batcher.enqueue_many(recorder.make(2))
    assert batcher.stop() == recorder.made  # and hides no error that came before start()
    assert batcher.returned == recorder.made
    assert batcher.state == State.STOPPED
    assert batcher.stop() == batcher.returned


def test_an_observer_that_pauses_does_not_wait_for_itself() -> None:
    with Batcher(flush_interval=0.005) as batcher:

        class Pausing:
            def came_in(self, newest: int, waited: bool, now: float) -> None:
                pass

            def raised(self, batch: object, now: float) -> None:
                batcher.pause(0.05)

            def returned(self, batch: object, seconds: float) -> None:
                pass

        batcher.observe(Pausing())
        recorder = Recorder()
        batcher.enqueue_many(recorder.make(2))
        until(lambda: batcher.totals.pauses)
        assert batcher.drain(20)


def test_b5_stop_ends_if_nothing_can_be_sent() -> None:
    limiter = ProvisionedResource(10)
    limiter.grant = lambda *_, **__: Nothing()  # type: ignore[method-assign, assignment]
    batcher, recorder = Batcher(rate_limiter=limiter, max_operation_time=0.2), Recorder()
    with batcher:
        batcher.enqueue_many(recorder.make(3))
    assert batcher.returned == recorder.made


class Nothing:
    """The grant of a limiter that has no capacity."""

    amount = 0.0

    def close(self) -> None:
        """Release nothing, since nothing was granted."""
