"""Batches built by subject, raised by a real Batcher: whole, and in order (laws S1, S5, B1)."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from tenacity import wait_none

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    BufferFullError,
    ImproperOrderError,
    Operation,
    ProvisionedResource,
    TooExpensiveError,
    Watcher,
)
from dispatcher.builders import SubjectBatch, SubjectBuilder
from dispatcher.senders import SubjectSender
from dispatcher.senders._placing import Placed, place
from limiters.testing import ManualClock
from tests.seen import PATIENCE, Seen
from tests.waiting import until

ORDERS = ["global", "subject"]


def batch(*subjects: str, lane: Any = None, name: Any = None, cost: float = 1) -> SubjectBatch[Any]:
    return SubjectBatch(lane, [name], subjects, 0, 0, cost)


def names(seen: Seen) -> list[Any]:
    return [payload.measurements[0] for payload in seen.payloads]


@pytest.mark.parametrize("order", ORDERS)
def test_s1_a_batch_built_is_the_batch_raised(batcher: Batcher, order: str) -> None:
    builder = SubjectBuilder[Any](
        7, subject=lambda m: m[1], event_time=lambda m: m[0], lane=lambda m: m[1] % 2
    )
    chance = random.Random(4)
    builder.extend((chance.randrange(20), chance.randrange(6), n) for n in range(500))
    built = builder.build()
    seen = Seen()
    with SubjectSender(batcher, Watcher(seen, max_batch_size=3), order=order) as sender:
        sender.send(built[:10])
        sender.send(built[10:])
        assert sender.wait(PATIENCE)
    assert all(len(raised) == 1 for raised in seen.batches)
    for lane in (0, 1):
        raised = [one for one in seen.payloads if one.lane == lane]
        ours = [one for one in built if one.lane == lane]
        assert sorted(map(id, raised)) == sorted(map(id, ours))
        if order == "global":
            assert [id(one) for one in raised] == [id(one) for one in ours]


def test_the_cost_of_a_batch_is_what_its_measurements_cost() -> None:
    seen: list[float] = []
    watcher = Watcher(lambda operations: seen.append(operations[0].cost))
    with Batcher() as batcher:
        for order in ORDERS:
            with SubjectSender(batcher, watcher, order=order) as sender:
                sender.send([batch("a", cost=7.5)])
    assert seen == [7.5, 7.5]


def test_s5_global_a_lane_waits_for_itself_and_for_no_other(batcher: Batcher) -> None:
    seen = Seen(held=True)
    with SubjectSender(batcher, Watcher(seen)) as sender:
        sender.send(
            [batch("a", lane=None, name=1), batch("b", lane=None, name=2), batch(lane="x", name=3)]
        )
        until(lambda: sorted(names(seen)) == [1, 3])
        assert batcher.inflight == 2
        seen.gate.set()
    assert names(seen)[2:] == [2]


def test_s5_subject_only_a_shared_subject_makes_a_batch_wait(batcher: Batcher) -> None:
    seen = Seen(held=True)
    with SubjectSender(batcher, Watcher(seen), order="subject") as sender:
        sender.send([batch("a", "b", name=1), batch("b", "c", name=2), batch("d", name=3)])
        sender.send([batch("c", name=4)])
        until(lambda: sorted(names(seen)) == [1, 3])
        seen.gate.set()
        assert sender.wait(PATIENCE)
    assert names(seen)[2:] == [2, 4]


class Flaky:
    """Fails now and then, and checks that a subject is in one batch at a time."""

    def __init__(self) -> None:
        self.chance = random.Random(11)
        self.lock = threading.Lock()
        self.inside: set[str] = set()
        self.sent: dict[str, list[int]] = defaultdict(list)
        self.wrong: list[object] = []

    def enter(self, one: SubjectBatch[Any]) -> bool:
        with self.lock:
            if self.inside & set(one.subjects):
                self.wrong.append(one)
            self.inside |= set(one.subjects)  # type: ignore[arg-type]
            return self.chance.random() < 0.3

    def leave(self, one: SubjectBatch[Any], failed: bool) -> None:
        with self.lock:
            self.inside -= set(one.subjects)
            if not failed:
                for subject in one.subjects:
                    self.sent[subject].append(one.measurements[0])  # type: ignore[index]
        if failed:
            raise ConnectionError

    def __call__(self, operations: list[Operation]) -> None:
        failed = self.enter(operations[0].payload)
        self.leave(operations[0].payload, failed)

    async def later(self, operations: list[Operation]) -> None:
        failed = self.enter(operations[0].payload)
        await asyncio.sleep(0.001)
        self.leave(operations[0].payload, failed)


@pytest.mark.parametrize("way", ["threads", "loop"])
def test_s5_b1_order_holds_through_retries(way: str) -> None:
    flaky, chance = Flaky(), random.Random(5)
    watcher = Watcher(flaky if way == "threads" else flaky.later, retry=wait_none())
    made = [
        batch(*chance.sample("abcdefghij", chance.randint(1, 3)), name=number)
        for number in range(300)
    ]
    with (
        Batcher(max_buffer_size=5, flush_interval=0.01) as batcher,
        SubjectSender(batcher, watcher, order="subject", max_waiting=20) as sender,
    ):
        sender.send(made)
        assert sender.wait(PATIENCE)
        done = batcher.totals.done
    assert not flaky.wrong
    for subject, numbers in flaky.sent.items():
        assert numbers == [one.measurements[0] for one in made if subject in one.subjects]
    assert done == 2 * len(made)


@pytest.mark.parametrize("order", ORDERS)
def test_b1_what_fails_for_good_is_handed_over_and_the_next_goes(
    batcher: Batcher, order: str
) -> None:
    told: list[Any] = []

    def on_batch(operations: list[Operation]) -> None:
        told.append(operations[0].payload.measurements[0])
        if told[-1] == 1:
            raise ValueError("never")

    def on_failure(operations: list[Operation], error: BaseException) -> None:
        told.append((operations[0].payload.measurements[0], str(error)))

    with SubjectSender(batcher, Watcher(on_batch, on_failure=on_failure), order=order) as sender:
        sender.send([batch("a", name=1), batch("a", name=2)])
        assert sender.wait(PATIENCE)
    assert set(told) == {1, (1, "never"), 2}


@pytest.mark.parametrize("order", ORDERS)
def test_b7_an_abandoned_batch_holds_up_its_successor_until_it_returns(order: str) -> None:
    seen, clock = Seen(held=True), ManualClock()
    with Batcher(clock=clock) as batcher:
        sender = SubjectSender(batcher, Watcher(seen, max_operation_time=60), order=order)
        sender.send([batch("a", name=1), batch("a", name=2), batch("b", lane="other", name=3)])
        until(lambda: sorted(names(seen)) == [1, 3])
        clock.advance(60)
        batcher.flush()
        until(lambda: batcher.totals.abandoned == 2)
        assert sorted(names(seen)) == [1, 3]
        seen.gate.set()
        until(lambda: names(seen)[2:] == [2])
        sender.close()


def test_a_batch_too_expensive_is_handed_over_and_its_successor_goes() -> None:
    failed: list[Any] = []
    seen = Seen()
    watcher = Watcher(seen, on_failure=lambda operations, error: failed.append(error))
    with Batcher(rate_limiter=ProvisionedResource(100)) as batcher:
        with SubjectSender(batcher, watcher, order="subject") as sender:
            sender.send([batch("a", name=1, cost=101), batch("a", name=2, cost=10)])
            assert sender.wait(PATIENCE)
        with (
            SubjectSender(batcher, watcher) as sender,
            pytest.raises(TooExpensiveError),
        ):
            sender.send([batch("a", name=3, cost=101)])
    assert names(seen) == [2]
    assert [type(error) for error in failed] == [TooExpensiveError]


def test_an_async_failure_callback_receives_what_is_too_expensive() -> None:
    failed: list[Any] = []

    async def on_failure(operations: list[Operation], error: BaseException) -> None:
        failed.append(error)
        raise RuntimeError("harms nothing")

    watcher = Watcher(Seen(), on_failure=on_failure)
    with (
        Batcher(rate_limiter=ProvisionedResource(100)) as batcher,
        SubjectSender(batcher, watcher, order="subject") as sender,
    ):
        sender.send([batch("a", cost=101)])
        assert sender.wait(PATIENCE)
    assert len(failed) == 1


def test_send_waits_for_a_place_and_says_how_many_it_took(batcher: Batcher) -> None:
    seen = Seen(held=True)
    sender = SubjectSender(batcher, Watcher(seen), order="subject", max_waiting=2)
    sender.send([batch("a", name=n) for n in range(3)])  # one is in flight
    with pytest.raises(BufferFullError) as caught:
        sender.send([batch("a", name=3)], timeout=0.01)
    assert (caught.value.accepted, caught.value.size) == (0, 2)
    assert sender.wait(0.01) is False
    with pytest.raises(BatcherStoppedError), stopping(batcher, seen):
        sender.send([batch("a", name=3)])
    assert [one.measurements[0] for one in sender.close()] == [1, 2]
    assert sender.wait(PATIENCE)
    assert [one.measurements[0] for one in sender.close()] == [1, 2]
    with pytest.raises(BatcherStoppedError):
        sender.send([batch("a")])


class stopping:  # noqa: N801  # reads as what it does
    """Stops the Batcher from another thread, without draining."""

    def __init__(self, batcher: Batcher, seen: Seen) -> None:
        self.thread = threading.Thread(target=self.run, args=(batcher, seen))

    @staticmethod
    def run(batcher: Batcher, seen: Seen) -> None:
        stop = threading.Thread(target=batcher.stop, kwargs={"drain": False})
        stop.start()
        until(lambda: batcher.state == "stopping")
        seen.gate.set()
        stop.join()

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *exc: object) -> None:
        self.thread.join()


def test_waiting_ends_when_the_batcher_does(batcher: Batcher) -> None:
    seen = Seen(held=True)
    sender = SubjectSender(batcher, Watcher(seen), order="subject")
    sender.send([batch("a", name=1), batch("a", name=2)])
    until(lambda: names(seen) == [1])
    with stopping(batcher, seen):
        assert sender.wait(PATIENCE)
    until(lambda: [one.measurements[0] for one in sender.close()] == [2])


def test_a_batcher_that_raises_when_full_is_asked_again() -> None:
    seen = Seen()
    with (
        Batcher(max_buffer_size=2, error_on_full_buffer=True, flush_interval=0.01) as batcher,
        SubjectSender(batcher, Watcher(seen), order="subject") as sender,
    ):
        sender.send([batch(str(n % 5), name=n) for n in range(20)])
        assert sender.wait(PATIENCE)
    assert sorted(names(seen)) == list(range(20))


def test_what_is_half_accepted_keeps_the_other_half() -> None:
    watcher = Watcher(Seen())
    batcher = Batcher(max_buffer_size=1)
    operations = [Operation(watcher, 1, 1), Operation(watcher, 0, 2)]
    assert place(batcher, operations) is Placed.FULL
    assert [operation.payload for operation in operations] == [2]
    assert place(batcher, operations) is Placed.FULL
    assert len(operations) == 1


def test_a_batch_that_was_accepted_without_its_end_is_not_unsent() -> None:
    with Batcher(max_buffer_size=1) as batcher:
        batcher.pause(1000)
        sender = SubjectSender(batcher, Watcher(Seen()), order="subject")
        sender.send([batch("a", name=1), batch("b", name=2)])
        until(lambda: batcher.operations_in_buffer == 1)
        assert [one.measurements[0] for one in sender.close()] == [2]


@pytest.mark.parametrize("order", ORDERS)
def test_a_batch_with_a_cost_that_is_none_is_refused(batcher: Batcher, order: str) -> None:
    with SubjectSender(batcher, Watcher(Seen()), order=order) as sender:
        with pytest.raises(ValueError, match="cost must be zero or more"):
            sender.send([batch("a"), batch("b", cost=-1)])
        assert batcher.needs_capacity == 0


class BrokenKey:
    def __hash__(self) -> int:
        raise RuntimeError


def test_a_thread_that_fails_leaves_no_caller_waiting(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    sender = SubjectSender(batcher, Watcher(Seen()), order="subject")
    broken = SubjectBatch(None, [1], (BrokenKey(),), 0, 0, 1)
    sender.send([broken])
    assert sender.wait(PATIENCE)
    assert "a SubjectSender has failed" in caplog.text
    with pytest.raises(BatcherStoppedError):
        sender.send([broken])


class SlowKey:
    """A subject that takes its time."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def __hash__(self) -> int:
        assert self.gate.wait(PATIENCE)
        return 1


def test_what_a_stopped_batcher_never_saw_is_unsent() -> None:
    batcher = Batcher()
    batcher.start()
    batcher.stop()
    sender = SubjectSender(batcher, Watcher(Seen()), order="subject")
    slow = SlowKey()
    sender.send([SubjectBatch(None, [1], (slow,), 0, 0, 1), batch("b", name=2)])
    slow.gate.set()
    assert sender.wait(PATIENCE)
    assert [one.measurements[0] for one in sender.close()] == [1, 2]


class Refusing(Batcher):
    """Counts how often it had no place."""

    refusals = 0

    def enqueue_many(
        self, operations: Iterable[Operation], timeout: float | timedelta | None = None
    ) -> None:
        try:
            super().enqueue_many(operations, timeout)
        except BufferFullError:
            self.refusals += 1
            raise


def test_it_asks_again_for_a_place_though_nothing_of_its_own_ends() -> None:
    seen = Seen()
    with Refusing(max_buffer_size=1, flush_interval=0.01) as batcher:
        batcher.pause(1000)
        batcher.enqueue(Operation(Watcher(Seen()), 1, "another's"))
        with SubjectSender(batcher, Watcher(seen), order="subject") as sender:
            sender.send([batch("a", name=1)])
            until(lambda: batcher.refusals)
            batcher.resume()
            assert sender.wait(PATIENCE)
    assert names(seen) == [1]


@pytest.mark.parametrize("order", ORDERS)
def test_b7_an_abandoned_batch_that_is_retried_goes_before_its_successor(order: str) -> None:
    seen, clock = Seen(held=True), ManualClock()
    watcher = Watcher(seen, max_operation_time=60, retry=wait_none(), retry_abandoned=True)
    with (
        Batcher(clock=clock) as batcher,
        SubjectSender(batcher, watcher, order=order) as sender,
    ):
        sender.send([batch("a", name=1), batch("a", name=2)])
        until(lambda: names(seen) == [1])
        clock.advance(60)
        batcher.flush()
        until(lambda: batcher.totals.retried == 1)
        seen.gate.set()
        assert sender.wait(PATIENCE)
    assert names(seen) == [1, 1, 2]


def test_waiting_for_oneself_is_refused(batcher: Batcher) -> None:
    caught: list[BaseException] = []

    def on_batch(operations: list[Operation]) -> None:
        try:
            sender.wait()
        except ImproperOrderError as error:
            caught.append(error)

    with SubjectSender(batcher, Watcher(on_batch), order="subject") as sender:
        sender.send([batch("a")])
        assert sender.wait(PATIENCE)
    assert len(caught) == 1


def test_leaving_by_an_exception_does_not_wait(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen(held=True)
    sender = SubjectSender(batcher, Watcher(seen), order="subject")
    sender.send([batch("a", name=1), batch("a", name=2)])
    until(lambda: names(seen) == [1])
    sender.__exit__(KeyError, KeyError(), None)
    assert [one.measurements[0] for one in sender.close()] == [2]
    assert "1 batches were not sent" in caplog.text
    seen.gate.set()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"order": "none"}, "order must be 'global' or 'subject', not 'none'"),
        ({"max_waiting": 0}, "max_waiting must be at least 1, not 0"),
    ],
)
def test_a_bad_argument_is_named(batcher: Batcher, arguments: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        SubjectSender(batcher, Watcher(print), **arguments)
