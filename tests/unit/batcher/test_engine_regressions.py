"""Regressions: ways in which a law was broken once."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import wait_fixed

from dispatcher import (
    AlreadyEnqueuedError,
    Operation,
    Watcher,
)
from limiters import ProvisionedResource
from limiters.testing import ManualClock
from tests.crank import FOREVER, Crank, batchable, ends, ignore, limited


def test_b9_an_operation_that_comes_in_during_a_turn_is_seen_before_the_engine_sleeps() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    crank.buffer.ring_at = FOREVER  # as after a call that the engine has not answered yet
    [operation] = batchable(watcher, "a")
    crank.enqueue(operation)
    assert not crank.buffer.look_at(0)


def test_b9_a_full_batch_does_not_wait_for_the_timer_while_another_is_in_flight() -> None:
    crank = Crank(flush_interval=1000)
    busy, other = Watcher(ignore, max_batch_size=2), Watcher(ignore)
    crank.enqueue(*batchable(busy, 1, 2))
    crank.run(0)
    crank.enqueue(*batchable(other, "waits"))
    crank.run(0)
    crank.enqueue(*batchable(busy, 3, 4))
    crank.run(0)
    assert [call.payloads for call in crank.calls] == [[1, 2], [3, 4]]


def test_c3_the_float_error_of_fractions_holds_nothing_up() -> None:
    crank = limited(1e6)
    watcher = Watcher(ignore, max_batch_size=1)
    for _ in range(20):
        crank.enqueue(*(Operation(watcher, n / 100, n) for n in range(1, 60)))
        crank.enqueue(Operation(watcher, 1e5, "large"))
        crank.run(1, at_turn=ends(crank))
    crank.engine.lanes.ready_cost = -1e-8
    crank.enqueue(Operation(watcher, 0.091, "small"))
    crank.run(1)
    assert crank.raised[-1][1][0].payload == "small"


@pytest.mark.parametrize("wrong", [AttributeError("retry_after"), ZeroDivisionError()])
def test_b6_a_strategy_that_raises_fails_its_batch_and_nothing_else(wrong: Exception) -> None:
    def strategy(state: Any) -> float:
        raise wrong

    crank = Crank(pause_time=strategy)
    crank.enqueue(Operation(Watcher(ignore, retry=strategy), 1, "a"))
    crank.turn()
    crank.end_all(OSError())
    assert crank.engine.open_work.totals.failed == 1
    assert crank.events[0].metadata is wrong
    crank.post(crank.engine.pausing.begin)
    assert crank.events[-1].value == 0.5


def test_b6_an_error_whose_repr_raises_is_reported() -> None:
    class MuteError(Exception):
        def __repr__(self) -> str:
            raise RuntimeError

    crank = Crank()
    crank.enqueue(Operation(Watcher(ignore), 1, "a"))
    crank.turn()
    crank.end_all(MuteError())
    assert "MuteError" in crank.events[0].message


def test_b2_an_operation_cannot_be_enqueued_while_its_batch_is_ending() -> None:
    crank = Crank()
    operation = Operation(Watcher(ignore, retry=wait_fixed(1)), 1, "a")
    refused: list[bool] = []

    def emit(name: str, *args: Any) -> None:
        with pytest.raises(AlreadyEnqueuedError):
            crank.enqueue(operation)
        refused.append(True)

    crank.enqueue(operation)
    crank.turn()
    crank.emit = emit  # type: ignore[assignment]
    crank.end_all(OSError())
    assert refused == [True]
    assert crank.engine.open_work.read() == (1, 0, 1)


def test_b1_an_operation_retried_with_priority_stays_before_later_ones_of_its_key() -> None:
    crank = limited(1000)
    watcher = Watcher(ignore, retry=wait_fixed(1))
    crank.enqueue(
        Operation(watcher, 1, "k1", batchable=True, key="k"),
        Operation(watcher, 1, "k2", key="k"),
        Operation(watcher, 1, "first", batchable=True, priority=5),
    )
    crank.flush()
    assert crank.calls[0].payloads == ["first", "k1"]
    crank.end_all(OSError())
    assert [o.payload for o in crank.stop()] == ["first", "k1", "k2"]


@pytest.mark.parametrize(("seconds", "asked"), [(0.01, {90}), (0.5, set())])
def test_c5_capacity_is_requested_for_each_time_a_busy_slot_becomes_free_before_the_next_request(
    seconds: float, asked: set[float]
) -> None:
    crank = limited(1000, emit_request=True, max_concurrent_batches=1)
    crank.enqueue(*batchable(Watcher(ignore, max_batch_size=10), *range(500)))
    for _ in range(30):
        crank.run(seconds)
        crank.end_all()
    assert {round(event.value) for event in crank.events if event.name == "request"} == asked


def test_c5_without_a_free_slot_there_is_no_demand_with_any_batch_size() -> None:
    crank = limited(1000, emit_request=True, max_concurrent_batches=1)
    crank.enqueue(Operation(Watcher(ignore), 1, "slow"))
    crank.turn()
    crank.enqueue(*batchable(Watcher(ignore), *range(500)))
    crank.run(0.5)
    assert [event.value for event in crank.events if event.name == "request"] in ([], [1, 0])


def test_a_failed_operation_that_has_become_too_expensive_leaves_nothing_in_memory() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    crank = Crank(limiter=limiter, clock=clock)
    crank.enqueue(Operation(Watcher(ignore, retry=wait_fixed(1)), 90, "a"))
    crank.turn()
    crank.end_all(OSError())
    limiter.set_capacity(50)
    crank.run(5)
    assert crank.engine.open_work.first_raised == {}
    assert crank.engine.open_work.totals.failed == 1


def test_b4_threads_are_used_again_once_the_system_has_some() -> None:
    crank = Crank()
    assert crank.runners.threads_left == 2000
    crank.runners._most_threads = 1
    crank.runners.threads_used = 1
    crank.runners.ended(on_loop=False)
    assert crank.runners.threads_left == 2000
