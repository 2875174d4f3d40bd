"""The door of the buffer: tickets, refusals and the line outside."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import BatcherStoppedError, BufferFullError
from dispatcher.buffer import Buffer


def silent() -> None:
    pass


@given(st.data())
def test_the_bound_is_exact_whatever_is_refused_or_comes_back(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5))
    buffer = Buffer(size, silent)
    inside = 0
    waiting: list[int] = []
    for _ in range(data.draw(st.integers(0, 60))):
        action = data.draw(st.sampled_from(["enter", "enter", "leave", "back"]))
        if action == "enter":
            ticket = next(buffer.tickets)
            if ticket < buffer.limit:
                assert inside < size
                inside += 1
            elif data.draw(st.booleans()):
                buffer.refuse([ticket])
                assert inside >= size or waiting
            else:
                waiting.append(ticket)
        elif action == "leave" and inside:
            left = data.draw(st.integers(1, inside))
            buffer.leave(left)
            inside -= left
        elif action == "back":
            buffer.come_back(1)
            inside += 1
        while waiting and waiting[0] < buffer.limit:
            waiting.pop(0)
            inside += 1
            assert inside <= size
        assert not (waiting and inside < size), "a place is free and somebody waits"


def test_who_waits_gets_in_in_the_order_of_coming() -> None:
    buffer = Buffer(1, silent)
    next(buffer.tickets)
    entered: list[int] = []
    lined_up = threading.Semaphore(0)
    buffer.ring = lined_up.release  # rung when somebody has lined up

    def wait(ticket: int) -> None:
        buffer.wait_for_place(ticket, None)
        entered.append(ticket)

    threads = []
    for _ in range(3):
        threads.append(threading.Thread(target=wait, args=(next(buffer.tickets),)))
        threads[-1].start()
        assert lined_up.acquire(timeout=10)
    for thread in threads:
        buffer.leave(1)
        thread.join(10)
    assert entered == [1, 2, 3]


def test_waiting_ends_when_time_is_up_or_the_door_closes() -> None:
    buffer = Buffer(1, silent)
    next(buffer.tickets)
    with pytest.raises(BufferFullError, match="1 places are taken"):
        buffer.wait_for_place(next(buffer.tickets), 0.0)
    buffer.close()
    with pytest.raises(BatcherStoppedError):
        buffer.wait_for_place(next(buffer.tickets), None)
