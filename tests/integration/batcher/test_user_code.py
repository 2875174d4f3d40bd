"""A user's object that misbehaves fails alone, and does not stop other work: laws B2, B6."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenacity import wait_fixed

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    BufferFullError,
    Event,
    ImproperOrderError,
    NoWatcherError,
    Operation,
    ProvisionedResource,
    Reject,
    Retry,
    State,
    Throttled,
    Watcher,
)
from tests.seen import PATIENCE, Seen
from tests.waiting import until


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    with Batcher(rate_limiter=ProvisionedResource(10_000), flush_interval=0.01) as batcher:
        yield batcher
        seen = Seen()
        healthy = Watcher(seen)
        batcher.enqueue(Operation(healthy, 1, "healthy"))
        assert healthy.wait(PATIENCE)
        assert seen.payloads == ["healthy"]
        assert batcher.state is State.RUNNING
        assert (batcher.needs_capacity, batcher.operations_in_buffer) == (0, 0)


class Unhashable(Operation):
    """An operation that cannot be hashed, like a dataclass that compares by value."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    __hash__ = None  # type: ignore[assignment]


class Untouchable(Operation):
    """An operation of which only `payload` can be read."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __hash__(self) -> int:
        raise RuntimeError("hashed")

    def _refuse(self) -> Any:
        raise RuntimeError("asked")

    key = priority = attempt = cost = batchable = property(_refuse)


@pytest.mark.parametrize("kind", [Unhashable, Untouchable])
@pytest.mark.parametrize("batchable", [True, False])
def test_b2_operations_are_distinguished_by_identity(
    batcher: Batcher, kind: type[Operation], batchable: bool
) -> None:
    raised: list[Any] = []
    given_up: list[Any] = []

    def on_batch(batch: list[Operation]) -> None:
        raised.extend(one.payload for one in batch)
        raise OSError("try again")

    watcher = Watcher(
        on_batch,
        max_attempts=2,
        retry=wait_fixed(0),
        on_failure=lambda failed, error: given_up.extend(one.payload for one in failed),
    )
    operations = [kind(watcher, 1, n, batchable=batchable, key=n % 2) for n in range(4)]
    batcher.enqueue_many(operations[:2])
    for operation in operations[2:]:
        batcher.enqueue(operation)
    assert watcher.wait(PATIENCE)
    assert sorted(raised) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(given_up) == [0, 1, 2, 3]


def test_b2_its_own_callback_enqueues_an_unhashable_operation_again(batcher: Batcher) -> None:
    attempts: list[int] = []

    def on_batch(batch: list[Operation]) -> None:
        attempts.append(batch[0].attempt)
        if len(attempts) == 1:
            batcher.enqueue(batch[0])
        if len(attempts) == 2:
            batcher.enqueue_many(batch)

    watcher = Watcher(on_batch)
    batcher.enqueue(Unhashable(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    assert attempts == [1, 2, 3]


def test_b5_an_operation_of_any_class_is_refused_if_there_is_no_place() -> None:
    watcher = Watcher(Seen())
    batcher = Batcher(max_buffer_size=1)
    first, second, third = (Untouchable(watcher, 1, n) for n in range(3))
    batcher.enqueue(first)
    with pytest.raises(BufferFullError):
        batcher.enqueue(second, timeout=0)
    with pytest.raises(BufferFullError) as many:
        batcher.enqueue_many([second, third], timeout=0)
    assert many.value.accepted == 0
    (given_back,) = batcher.stop()
    assert given_back is first
    with pytest.raises(BatcherStoppedError):
        batcher.enqueue(second)


class Alike(Watcher):
    """Watchers of which any two are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        raise RuntimeError("asked")


class AlikeAndUnhashable(Alike):
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Alike, AlikeAndUnhashable])
def test_b2_watchers_are_distinguished_by_identity(batcher: Batcher, kind: type[Watcher]) -> None:
    seen = [Seen(), Seen()]
    watchers = [kind(one, max_batch_size=10) for one in seen]
    batcher.enqueue_many(
        [Operation(watchers[n % 2], 1, n, batchable=True) for n in range(10)],
    )
    for watcher in watchers:
        assert watcher.wait(PATIENCE)
    assert sorted(seen[0].payloads) == [0, 2, 4, 6, 8]
    assert sorted(seen[1].payloads) == [1, 3, 5, 7, 9]


def test_b6_a_watcher_whose_repr_raises_fails_alone(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(batch: list[Operation]) -> None:
        raise OSError("refused")

    watcher = Alike(fail, on_failure=lambda failed, error: fail(failed))
    batcher.enqueue(Operation(watcher, 1, None))
    assert watcher.wait(PATIENCE)
    assert "fail" in caplog.text
    assert batcher.totals.failed == 1


def test_a_watcher_whose_init_was_not_called_is_refused(batcher: Batcher) -> None:
    class Unmade(Watcher):
        def __init__(self) -> None:
            pass

    for enqueue in (batcher.enqueue, lambda one: batcher.enqueue_many([one])):
        with pytest.raises(NoWatcherError):
            enqueue(Operation(Unmade(), 1, None))


class Key:
    """A key whose `==` raises. All keys have one hash."""

    def __init__(self, *, healthy: bool = False) -> None:
        self.healthy = healthy

    def __hash__(self) -> int:
        return hash("shared")

    def __eq__(self, other: object) -> bool:
        if self.healthy and getattr(other, "healthy", False):
            return self is other
        raise RuntimeError("not comparable")


def test_b2_a_key_that_cannot_be_compared_fails_only_its_operation(batcher: Batcher) -> None:
    seen = Seen(held=True)
    given_up: list[tuple[Any, BaseException]] = []
    watcher = Watcher(
        seen,
        on_failure=lambda failed, error: given_up.extend((one.payload, error) for one in failed),
    )
    batcher.enqueue(Operation(watcher, 1, "first", key="shared"))
    assert seen.entered.acquire(timeout=PATIENCE)
    batcher.enqueue(Operation(watcher, 1, "strange", key=Key()))
    batcher.enqueue(Operation(watcher, 1, "second", key="shared"))
    batcher.enqueue(Operation(watcher, 1, "other", key="other"))
    until(lambda: given_up)
    seen.gate.set()
    assert watcher.wait(PATIENCE)
    assert sorted(seen.payloads) == ["first", "other", "second"]
    [(payload, error)] = given_up
    assert payload == "strange"
    assert isinstance(error.__cause__, RuntimeError)
    assert batcher.totals.failed == 1


def test_b1_keys_of_one_hash_are_different_keys(batcher: Batcher) -> None:
    seen = Seen(held=True)
    watcher = Watcher(seen, max_batch_size=1)
    keys = [Key(healthy=True) for _ in range(3)]
    for number in range(3):
        for index, key in enumerate(keys):
            batcher.enqueue(Operation(watcher, 1, (index, number), key=key))
    until(lambda: len(seen.batches) == 3)
    assert sorted(seen.payloads) == [(0, 0), (1, 0), (2, 0)], "one of each key is in flight"
    seen.gate.set()
    assert watcher.wait(PATIENCE)
    for index in range(3):
        assert [n for at, n in seen.payloads if at == index] == [0, 1, 2]


def test_b5_an_operation_whose_key_cannot_be_compared_is_given_back_by_a_late_stop() -> None:
    watcher = Watcher(Seen())
    batcher = Batcher()
    keys = ["shared", Key()]
    batcher.enqueue_many([Operation(watcher, 1, n, key=key) for n, key in enumerate(keys)])
    batcher._engine.give_back()
    assert [one.payload for one in batcher._engine.batch_end.given_back or []] == [0, 1]
    assert batcher._engine.open_work.read() == (0, 0, 0)


@pytest.mark.parametrize(("term", "value"), [("watcher", None), ("batchable", False)])
def test_b2_the_terms_of_an_operation_cannot_change_while_it_waits_or_is_in_flight(
    batcher: Batcher, term: str, value: object
) -> None:
    def change() -> None:
        setattr(operation, term, value)

    seen = Seen(held=True)
    watcher = Watcher(seen)
    operation = Operation(watcher, 1, "a", batchable=True)
    batcher.pause(PATIENCE)
    batcher.enqueue(operation)
    with pytest.raises(ImproperOrderError, match=f"{term} cannot be changed while"):
        change()
    batcher.resume()
    assert seen.entered.acquire(timeout=PATIENCE)
    with pytest.raises(ImproperOrderError):
        change()
    seen.gate.set()
    assert watcher.wait(PATIENCE)
    assert seen.payloads == ["a"]
    change()  # it has ended


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("max_operation_time", "1"),
        ("max_batch_size", "many"),
        ("on_batch", None),
        ("on_failure", 7),
        ("retry_abandoned", object()),
        ("max_attempts", "1"),
    ],
)
def test_the_terms_of_a_watcher_never_change(term: str, value: object) -> None:
    watcher = Watcher(Seen())
    before = getattr(watcher, term)
    with pytest.raises(AttributeError):
        setattr(watcher, term, value)
    assert getattr(watcher, term) == before


class AttributelessError(Exception):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


def changed(error: BaseException, **attributes: object) -> BaseException:
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    "make",
    [
        AttributelessError,
        lambda: changed(Retry(), after="soon"),
        lambda: changed(Retry(), after=float("nan")),
        lambda: changed(Throttled(), retry_after="soon"),
        lambda: changed(Reject("why"), is_logged=True),
    ],
)
def test_b6_an_error_with_strange_attributes_fails_its_batch_alone(
    batcher: Batcher, make: Callable[[], BaseException]
) -> None:
    def fail(batch: list[Operation]) -> None:
        raise make()

    handed: list[Operation] = []
    watcher = Watcher(fail, on_failure=lambda failed, error: handed.extend(failed))
    operation = Operation(watcher, 1, None)
    batcher.enqueue(operation)
    assert watcher.wait(PATIENCE)
    assert handed == [operation]
    assert batcher.totals.failed == 1


def test_b6_a_log_filter_that_raises_stops_nothing(batcher: Batcher) -> None:
    class Broken(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("broken filter")

    def fail(batch: list[Operation]) -> None:
        raise OSError("refused")

    watcher = Watcher(fail)
    log, broken = logging.getLogger("dispatcher.batcher.failures"), Broken()
    log.addFilter(broken)
    try:
        batcher.enqueue(Operation(watcher, 1, None))
        assert watcher.wait(PATIENCE)
    finally:
        log.removeFilter(broken)
    assert batcher.totals.failed == 1


# One exception that is raised many times.


@pytest.mark.parametrize("on_loop", [False, True])
def test_b6_the_traceback_of_an_exception_that_is_raised_many_times_does_not_grow(
    batcher: Batcher, caplog: pytest.LogCaptureFixture, on_loop: bool
) -> None:
    always = OSError("always the same")
    depths: list[int] = []

    def fail(batch: list[Operation]) -> None:
        raise always

    async def fail_async(batch: list[Operation]) -> None:
        raise always

    def listen(event: Event) -> None:
        trace, depth = always.__traceback__, 0
        while trace is not None:
            trace, depth = trace.tb_next, depth + 1
        depths.append(depth)

    watcher = Watcher(fail_async if on_loop else fail)
    with batcher.add_listener(listen, "batch-failed"):
        for _ in range(50):
            batcher.enqueue(Operation(watcher, 1, None))
            assert watcher.wait(PATIENCE)
        until(lambda: len(depths) == 50)
    assert max(depths) < 10
    assert max(len(record.exc_text or "") for record in caplog.records) < 5_000
