"""The bounded buffer: its room, the callers outside, and operations that are withdrawn."""

from __future__ import annotations

import gc
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import BatcherStoppedError, BufferFullError, Operation, Watcher
from dispatcher._core.queues.buffer import Buffer, WaitingCaller
from dispatcher._core.queues.chunk import Chunk
from tests.crank import ignore
from tests.waiting import until

WATCHER = Watcher(ignore)


def silent() -> None:
    pass


def publish(buffer: Buffer, payload: object = None) -> Operation:
    operation = Operation(WATCHER, 1, payload, batchable=True)
    operation._where = buffer
    buffer.inbox.append(operation)
    return operation


def publish_many(buffer: Buffer, count: int) -> Chunk:
    chunk = Chunk(buffer)
    chunk.operations = [Operation(WATCHER, 1, n, batchable=True) for n in range(count)]
    chunk.end = count
    for operation in chunk.operations:
        operation._where = chunk
    buffer.announce()
    buffer.inbox.append(chunk)
    return chunk


def take(buffer: Buffer) -> list[Operation]:
    """Take the operations out of the buffer in the way of the engine."""
    taken: list[Operation] = []
    for run in buffer.take():
        mine = [one for one in run.operations if one._where is run.claim]
        for operation in mine:
            operation._where = 0
        buffer.leave(len(run.operations) - len(mine))
        taken += mine
    return taken


@given(st.data())
def test_the_bound_is_exact_after_any_withdrawals_and_returns(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5))
    buffer = Buffer(size, silent)
    waiting: list[Operation] = []
    """Operations that were published, in order, and neither taken nor withdrawn."""
    taken = 0
    for _ in range(data.draw(st.integers(0, 40))):
        action = data.draw(st.sampled_from(["one", "some", "take", "leave", "back"]))
        before = taken + len(waiting)
        if action == "one":
            one = publish(buffer)
            assert bool(buffer.beyond(one)) == (before >= size)
            if buffer.beyond(one) and data.draw(st.booleans()):
                assert buffer.withdraw(one) == 1
                assert one._where is None
            else:
                waiting.append(one)
        elif action == "some":
            chunk = publish_many(buffer, data.draw(st.integers(1, 4)))
            count = len(chunk.operations)
            assert buffer.beyond(chunk) == min(count, max(0, before + count - size))
            if data.draw(st.booleans()):
                buffer.withdraw(chunk)
            waiting += chunk.operations[: chunk.end]
            assert all(one._where is None for one in chunk.operations[chunk.end :])
        elif action == "take":
            room = max(0, size - taken)
            assert take(buffer) == waiting[:room]
            taken += len(waiting[:room])
            del waiting[:room]
        elif action == "leave" and taken:
            left = data.draw(st.integers(1, taken))
            buffer.leave(left)
            taken -= left
        elif action == "back" and len(waiting) + taken < size:
            buffer.come_back(1)
            taken += 1
        accepted = min(len(waiting), max(0, size - taken))
        assert buffer.arrived() == (accepted, accepted)


def test_accepted_operations_are_taken_although_others_come_back() -> None:
    buffer = Buffer(2, silent)
    accepted = [publish(buffer), publish(buffer)]
    buffer.come_back(2)
    outside = publish(buffer)
    assert buffer.arrived() == (2, 2)
    assert take(buffer) == accepted
    buffer.leave(2)
    assert take(buffer) == []
    buffer.leave(1)
    assert take(buffer) == [outside]


def test_waiting_callers_are_let_in_in_order_of_arrival() -> None:
    buffer = Buffer(1, silent)
    publish(buffer)
    entered: list[object] = []
    threads = []

    def wait(operation: Operation) -> None:
        buffer.wait(operation, None, None)
        entered.append(operation.payload)

    for number in range(3):
        threads.append(threading.Thread(target=wait, args=(publish(buffer, number),)))
        threads[-1].start()
        until(lambda: len(buffer.line) == len(threads))
    for thread in threads:
        take(buffer)
        buffer.leave(1)
        thread.join(10)
    assert entered == [0, 1, 2]


def test_waiting_ends_after_its_timeout_or_when_the_buffer_closes() -> None:
    buffer = Buffer(1, silent)
    publish(buffer)
    with pytest.raises(BufferFullError, match="1 places are taken"):
        buffer.wait(publish(buffer), 0.0, None)
    with pytest.raises(BufferFullError) as caught:
        buffer.wait(publish_many(buffer, 3), 0.0, None)
    assert caught.value.accepted == 0
    buffer.close()
    with pytest.raises(BatcherStoppedError):
        buffer.wait(publish(buffer), None, None)
    assert len(take(buffer)) == 1
    assert not buffer.holds_more


def test_an_operation_with_two_claims_is_taken_once() -> None:
    buffer = Buffer(5, silent)
    chunk = publish_many(buffer, 2)
    again = chunk.operations[0]
    again._where = buffer  # by another call, which found the claim before it was published
    buffer.inbox.append(again)
    assert [one.payload for one in take(buffer)] == [1, 0]
    assert buffer.room == 3


def test_other_threads_may_publish_whenever_the_garbage_collector_runs() -> None:
    buffer = Buffer(100, silent)
    publish_many(buffer, 2)
    line = [publish(buffer) for _ in range(3)]

    def publish_one(phase: str, facts: object) -> None:
        """Act as another thread that runs because of a finalizer."""
        buffer.inbox.append(line[0])
        buffer.line[len(buffer.line)] = WaitingCaller(line[0], None, silent)

    before = gc.get_threshold()
    gc.callbacks.append(publish_one)
    gc.set_threshold(1)
    try:
        for look in (
            lambda: buffer.has(line[1]),
            lambda: buffer.beyond(line[1]),
            lambda: buffer.arrived(),
            lambda: buffer.look_at(5),
            lambda: buffer.callbacks_outside(),
            lambda: buffer.refuse(set()),
        ):
            for _ in range(20):
                look()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(publish_one)
