"""Users' numbers, errors and strategies that behave in unexpected ways: laws B2 and B6."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher import (
    Batcher,
    ImproperOrderError,
    Operation,
    ProvisionedResource,
    State,
    Watcher,
)
from tests.seen import PATIENCE, Seen


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    with Batcher(rate_limiter=ProvisionedResource(10_000), flush_interval=0.01) as batcher:
        yield batcher
        healthy = Watcher(Seen())
        batcher.enqueue(Operation(healthy, 1, "healthy"))
        assert healthy.wait(PATIENCE)
        assert batcher.state is State.RUNNING


class Priority(int):
    """A whole number that cannot be compared."""

    def __neg__(self) -> Priority:
        return self

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = int.__hash__


def test_a_priority_of_a_strange_class_counts_as_its_number(batcher: Batcher) -> None:
    seen = Seen()
    watcher = Watcher(seen, max_batch_size=10)
    numbers = [3, 1, 2]
    batcher.enqueue_many(
        [Operation(watcher, 1, n, batchable=True, priority=Priority(n)) for n in numbers]
    )
    assert watcher.wait(PATIENCE)
    assert seen.batches == [[3, 2, 1]]


def test_a_tiny_cost_blocks_no_operation(batcher: Batcher) -> None:
    seen = Seen()
    cheap = Watcher(seen, max_batch_size=2)
    batcher.enqueue_many(
        [Operation(cheap, 5e-324, n, batchable=True) for n in range(6)]
        + [Operation(Watcher(seen), 1_500, n, batchable=True) for n in range(3)]
    )
    assert batcher.drain(PATIENCE)
    assert len(seen.payloads) == 9


def leave(*arguments: object) -> Any:
    raise SystemExit("the user's code wants to end")


class SpeechlessError(Exception):
    __repr__ = __str__ = leave
    __traceback__ = property(leave)


def test_b6_an_error_that_raises_system_exit_when_shown_fails_only_its_batch(
    batcher: Batcher,
) -> None:
    def fail(batch: list[Operation]) -> None:
        raise SpeechlessError

    given_up: list[Operation] = []
    watcher = Watcher(fail, on_failure=lambda failed, error: given_up.extend(failed))
    operation = Operation(watcher, 1, None)
    batcher.enqueue(operation)
    assert watcher.wait(PATIENCE)
    assert given_up == [operation]


def test_b6_a_strategy_that_raises_system_exit_fails_only_its_batch(batcher: Batcher) -> None:
    def fail(batch: list[Operation]) -> None:
        raise OSError("refused")

    errors: list[BaseException] = []
    watcher = Watcher(fail, retry=leave, on_failure=lambda failed, error: errors.append(error))
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    assert [type(error) for error in errors] == [SystemExit]


def test_b6_an_observer_that_raises_system_exit_is_not_called_again(batcher: Batcher) -> None:
    class Observer:
        came_in = raised = returned = __repr__ = leave

    batcher.observe(Observer())  # the fixture then sends a healthy operation


def test_a_timeout_may_be_longer_than_the_longest_of_the_system() -> None:
    watcher = Watcher(Seen())
    with Batcher(max_buffer_size=1) as batcher:
        batcher.pause(0.05)
        for n in range(3):
            batcher.enqueue(Operation(watcher, 1, n), timeout=1e300)
        assert watcher.wait(PATIENCE)


def test_wait_works_while_other_threads_use_its_watcher_in_new_batchers() -> None:
    watcher = Watcher(Seen())
    batchers: list[Batcher] = []
    ended = threading.Event()

    def take_it() -> None:
        for _ in range(300):
            batchers.append(Batcher())
            batchers[-1].enqueue(Operation(watcher, 0, None))
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=take_it)
    try:
        thread.start()
        while not ended.is_set():
            with contextlib.suppress(ImproperOrderError):  # the new Batchers are not started
                watcher.wait(timeout=0)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert len(batchers) == 300
