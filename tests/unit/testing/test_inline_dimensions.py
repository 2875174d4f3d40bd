"""The InlineBatcher with limits of several dimensions, by a manual clock."""

from __future__ import annotations

import pytest

from dispatcher import Operation, ProvisionedResource, TooExpensiveError, Watcher
from dispatcher.testing import InlineBatcher, ManualClock
from limiters import InFlight, Limits, Rate
from limiters.verifier import SpentCall, verify_limits


def test_v1_each_window_holds_on_the_manual_clock() -> None:
    clock = ManualClock()
    limits = Limits(requests=Rate(4, per=10, also=[Rate(2, per=1)], burst=2), tokens=Rate(100))
    limiter = ProvisionedResource(limits, clock=clock)
    log: list[SpentCall] = []

    def call(batch: list[Operation]) -> None:
        now = clock.now()
        log.append(SpentCall(now, "one", {"requests": 1, "tokens": len(batch)}, now))

    watcher = Watcher(call, batch_cost={"requests": 1})
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for _ in range(12):
            batcher.enqueue(Operation(watcher, {"tokens": 1}, "x"))
        assert len(batcher.turn(0.9)) == 2
        batcher.turn(60.0)
    assert len(log) == 12
    assert verify_limits(log, limits).holds


def test_n1_a_call_that_lasts_keeps_its_slot() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(Limits(tokens=Rate(1_000), calls=InFlight(1)), clock=clock)
    began: list[float] = []

    def call(batch: list[Operation]) -> None:
        began.append(clock.now())
        if len(began) == 1:
            batcher.turn(0.5)

    watcher = Watcher(call, batch_cost={"calls": 1})
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for _ in range(2):
            batcher.enqueue(Operation(watcher, {"tokens": 1}, "x"))
        batcher.turn(1.0)
    first, second = began
    assert second - first >= 0.5


def test_v7_what_costs_too_much_is_refused_by_its_dimension() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(Limits(tokens=Rate(10), calls=InFlight(1)), clock=clock)
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        with pytest.raises(TooExpensiveError, match="11 of tokens"):
            batcher.enqueue(Operation(Watcher(lambda batch: None), {"tokens": 11}, "x"))
        assert not batcher.needs_capacity
