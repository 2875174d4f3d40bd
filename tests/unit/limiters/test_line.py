"""The line of those who wait without a Batcher: laws C3 and C4, against a budget of the test's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from limiters._resource.acquire_queue import PATIENCE, AcquireQueue, QueuedCaller
from limiters._resource.reservation import Receipt
from limiters._support.clock import MonotonicClock
from limiters.errors import ExceedsCapacityError, ImproperOrderError, LimiterStoppedError
from limiters.limits import Limits
from tests.waiting import until


class FakeBudget:
    """Grants what is `free`, and nothing comes by itself."""

    def __init__(self, free: float = 0.0) -> None:
        self.free = free
        self.limits = Limits.of(100.0)
        self.max_capacity = 100.0
        self.started = True
        self.told: list[float] = []
        self.on_give_me: Callable[[float], object] = lambda target: None
        self.asked = threading.Event()

    def give_me(self, target: float, claimant: object = None) -> None:
        self.on_give_me(target)
        self.told.append(target)

    def take(self, cost: float, claimant: object, receipt: Receipt) -> bool:
        self.asked.set()
        if self.free < cost:
            return False
        self.free -= cost
        return True

    def withdraw(self, receipt: Receipt) -> None:
        assert receipt.payment is None, "nothing was charged"

    def ready_at(self, cost: float) -> float:
        return MonotonicClock().now() + 60.0


def line_of(free: float = 0.0) -> tuple[AcquireQueue, FakeBudget]:
    budget = FakeBudget(free)
    return AcquireQueue(budget, MonotonicClock()), budget


def caller(cost: float) -> QueuedCaller:
    return QueuedCaller(cost, lambda: None)


def in_thread(target: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Runs it; what it returned, or raised."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(target())
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ended


def test_what_is_there_is_granted_immediately_and_what_is_not_times_out() -> None:
    line, budget = line_of(10.0)
    assert line.acquire(10, 0)
    assert not line.acquire(1, 0)
    assert not line.acquire(1, 0.01)
    assert budget.told[-1] == 0
    budget.free = 3.0
    assert line.acquire(3, None)
    assert budget.free == 0


def test_what_does_not_suffice_goes_back() -> None:
    line, budget = line_of(10.0)
    assert not line.acquire(20, 0)
    assert budget.free == 10


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), True, "1", None])
def test_a_cost_that_is_none_is_named(bad: object) -> None:
    line, _ = line_of()
    with pytest.raises(ValueError, match=r"^cost .*not"):
        line.acquire(bad, None)


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "1"])
def test_a_timeout_that_is_none_is_named(bad: object) -> None:
    line, _ = line_of()
    with pytest.raises(ValueError, match=r"^timeout .*not"):
        line.acquire(1, bad)  # type: ignore[arg-type]


def test_errors_leave_no_trace() -> None:
    line, budget = line_of()
    with pytest.raises(ExceedsCapacityError):
        line.acquire(101, None)
    budget.started = False
    with pytest.raises(ImproperOrderError):
        line.acquire(1, None)
    assert budget.told == []


def test_first_come_first_served_however_small_the_second_is() -> None:
    line, budget = line_of(5.0)
    first, first_ended = in_thread(lambda: line.acquire(50, None))
    until(lambda: budget.told == [50])
    second, second_ended = in_thread(lambda: line.acquire(1, None))
    until(lambda: budget.told == [50, 51])
    assert not second_ended
    budget.free = 51.0
    line.wake()
    first.join(10)
    second.join(10)
    assert first_ended == second_ended == [True]
    assert budget.told[-1] == 0


def test_who_gives_up_lets_the_next_one_through() -> None:
    line, budget = line_of(5.0)
    first, first_ended = in_thread(lambda: line.acquire(50, 0.05))
    until(lambda: budget.told[:1] == [50])
    second, second_ended = in_thread(lambda: line.acquire(5, None))
    first.join(10)
    second.join(10)
    assert (first_ended, second_ended) == ([False], [True])


def test_a_capacity_lowered_meanwhile_refuses_who_waits() -> None:
    line, budget = line_of()
    thread, ended = in_thread(lambda: line.acquire(50, None))
    budget.asked.wait(10)
    budget.max_capacity = 10.0
    line.wake()
    thread.join(10)
    assert isinstance(ended[0], ExceedsCapacityError)


def test_a_stop_meanwhile_reaches_all_who_wait() -> None:
    line, budget = line_of()
    waiting = [in_thread(lambda: line.acquire(5, None)) for _ in range(5)]
    until(lambda: len(budget.told) == 5)
    budget.started = False
    line.wake()
    for thread, ended in waiting:
        thread.join(10)
        assert isinstance(ended[0], LimiterStoppedError)
    assert budget.told[-1] == 0


def test_c5_the_demand_is_reported_in_the_order_in_which_it_changed() -> None:
    # A caller that leaves is delayed before it reports that nothing is wanted any more; in between
    # another one joins. If "nothing" were reported last, it would stay: no capacity would be asked
    # for the one that joined.
    line, budget = line_of(10.0)
    leaving, joined = threading.Event(), threading.Event()

    def held_up(target: float) -> None:
        if target == 0 and not leaving.is_set():
            leaving.set()
            joined.wait(0.2)

    budget.on_give_me = held_up
    first, _ = in_thread(lambda: line.acquire(10, None))
    leaving.wait(10)
    second, ended = in_thread(lambda: line.acquire(7, None))
    first.join(10)
    until(lambda: 7 in budget.told)
    assert budget.told[-1] == 7
    budget.free = 7.0
    line.wake()
    second.join(10)
    assert ended == [True]


def test_a_coroutine_that_is_cancelled_leaves_the_line() -> None:
    line, budget = line_of()

    async def scenario() -> None:
        task = asyncio.create_task(line.acquire_async(50, None))
        other = asyncio.create_task(line.acquire_async(5, None))
        while len(budget.told) < 2:
            await asyncio.sleep(0)
        budget.free = 5.0
        task.cancel()
        assert await other
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert budget.told[-1] == 0


def test_coroutines_time_out_and_are_served_in_order() -> None:
    line, budget = line_of(3.0)

    async def scenario() -> list[bool]:
        return list(
            await asyncio.gather(
                line.acquire_async(2, None),
                line.acquire_async(2, 0.05),
                line.acquire_async(1, 20),
            )
        )

    assert asyncio.run(scenario()) == [True, False, True]
    assert budget.free == 0


def left_behind(line: AcquireQueue) -> asyncio.Task[bool]:
    """A task that waits in a loop that is closed: it will never go on."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(line.acquire_async(50, None))
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    return task


def test_who_waits_in_a_loop_that_was_closed_holds_up_no_other() -> None:
    line, budget = line_of()
    task = left_behind(line)
    line.wake()
    budget.free = 5.0
    assert line.acquire(5, 5)
    assert not task.done()


def test_who_comes_after_one_whose_loop_was_closed_is_served() -> None:
    line, budget = line_of(5.0)
    task = left_behind(line)
    assert line.acquire(5, 5)
    assert budget.told[-1] == 0
    assert not task.done()


def test_who_waits_in_a_loop_that_has_stopped_loses_its_turn() -> None:
    line, budget = line_of(5.0)
    loop = asyncio.new_event_loop()
    task = loop.create_task(line.acquire_async(50, None))
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    assert line.acquire(5, 20)
    assert not task.done()
    budget.free = 50.0
    assert loop.run_until_complete(task)  # and goes on with its loop
    loop.close()
    assert budget.told[-1] == 0


def test_who_lost_its_turn_is_first_again_when_it_asks() -> None:
    line, budget = line_of()
    lost, second = caller(50), caller(5)
    assert not line._granted(lost, Receipt())
    assert not line._granted(second, Receipt())
    lost.asked_at -= PATIENCE + 1
    budget.free = 50.0
    assert line._granted(second, Receipt())
    second.gone = True
    assert not line._granted(lost, Receipt())
    third = caller(5)
    assert not line._granted(third, Receipt())
    budget.free = 50.0
    assert not line._granted(third, Receipt())
    assert line._granted(lost, Receipt())


def test_those_who_are_lost_no_longer_count_as_demand() -> None:
    line, budget = line_of()
    lost = caller(50)
    line._granted(lost, Receipt())
    lost.asked_at -= PATIENCE + 1
    line.wake()
    assert budget.told == [50, 0]
