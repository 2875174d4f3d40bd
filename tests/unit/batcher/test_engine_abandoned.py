"""Batches that are abandoned before they began are not run any more (laws B2, B7)."""

from __future__ import annotations

import threading

import pytest
from tenacity import wait_fixed

from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
from limiters.provisioned import ProvisionedGrant
from limiters.testing import ManualClock
from tests.crank import Crank, ignore
from tests.seen import PATIENCE
from tests.waiting import until


class Loop:
    """Blocks the event loop of a Batcher until the test opens the gate."""

    def __init__(self, batcher: Batcher) -> None:
        self.gate = threading.Event()
        entered = threading.Event()

        async def block(batch: list[Operation]) -> None:
            entered.set()
            self.gate.wait(PATIENCE)  # as a coroutine does that makes a blocking call

        self.watcher = Watcher(block, max_operation_time=PATIENCE)
        batcher.enqueue(Operation(self.watcher, 0, None))
        assert entered.wait(PATIENCE)


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("attempts", [1, 4])
def test_b7_a_coroutine_that_is_abandoned_before_it_begins_is_not_run(
    attempts: int, key: str | None
) -> None:
    ran: list[int] = []

    async def on_batch(batch: list[Operation]) -> None:
        ran.append(batch[0].attempt)

    with Batcher(rate_limiter=ProvisionedResource(1_000)) as batcher:
        loop = Loop(batcher)
        watcher = Watcher(
            on_batch,
            max_operation_time=0.05,
            max_attempts=attempts,
            retry=wait_fixed(0),
            retry_abandoned=True,
        )
        batcher.enqueue(Operation(watcher, 1, None, key=key))
        abandoned = 1 if key else attempts  # with a key it waits until the first one is over
        until(lambda: batcher.totals.batches_abandoned == abandoned)
        loop.gate.set()
        assert loop.watcher.wait(PATIENCE)
        after = Watcher(on_batch, max_operation_time=PATIENCE)
        batcher.enqueue(Operation(after, 1, None))
        assert after.wait(PATIENCE)
        assert watcher.wait(PATIENCE)
        if not key:
            assert ran == [1], "the one that was enqueued afterwards"
            assert batcher.totals.late == 0
        assert ran.count(1) == 1
        assert len(set(ran)) == len(ran), "no attempt runs twice"
    assert batcher.needs_capacity == 0


def test_b7_a_batch_that_is_abandoned_before_it_begins_costs_nothing() -> None:
    limiter = ProvisionedResource(10)
    batcher = Batcher(rate_limiter=limiter)
    batcher.start()
    loop = Loop(batcher)

    async def never(batch: list[Operation]) -> None:
        raise AssertionError

    watcher = Watcher(never, max_operation_time=0.05)
    batcher.enqueue(Operation(watcher, 10, None))
    until(lambda: batcher.totals.batches_abandoned == 1)
    loop.gate.set()
    assert loop.watcher.wait(PATIENCE)
    other = Watcher(ignore)
    batcher.enqueue(Operation(other, 10, None))
    assert other.wait(PATIENCE)
    assert batcher.stop() == []
    assert limiter.standing().spent_reserved == 10


def test_b7_a_batch_cannot_begin_after_it_was_abandoned() -> None:
    async def on_batch(batch: list[Operation]) -> None: ...

    crank = Crank()
    crank.enqueue(Operation(Watcher(on_batch, max_operation_time=1), 1, None))
    crank.turn()
    [call] = crank.calls
    crank.run(2)
    assert not call.job.may_start()
    crank.turn()
    assert crank.engine.open_work.totals.late == 0


class Suspending(ProvisionedResource):
    """A limit whose process is suspended between the beginning of a turn and the grant."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(10, clock=clock)
        self.manual = clock
        self.suspended_for = 0.0

    def grant(
        self, up_to: float, at_least: float = 0.0, claimant: object = None
    ) -> ProvisionedGrant:
        length, self.suspended_for = self.suspended_for, 0.0
        self.manual.advance(length)
        return super().grant(up_to, at_least, claimant)


def test_b7_the_time_of_a_batch_counts_from_the_moment_when_it_was_charged() -> None:
    clock = ManualClock()
    limiter = Suspending(clock)
    crank = Crank(limiter=limiter, clock=clock)
    crank.runners.busy = True
    limiter.suspended_for = 61
    crank.enqueue(Operation(Watcher(ignore, max_operation_time=60), 1, "x"))
    crank.turn()
    crank.turn()
    assert crank.engine.open_work.totals.batches_abandoned == 0
    crank.runners.go_on()
    [call] = crank.calls
    call.end()
    crank.turn()
    assert crank.engine.open_work.totals.done == 1


def test_the_error_for_retry_abandoned_without_a_retry_names_what_is_missing() -> None:
    with pytest.raises(ValueError, match="retry_abandoned must go with a retry"):
        Watcher(ignore, retry_abandoned=True)
    Watcher(ignore, retry_abandoned=True, retry=wait_fixed(1))
    handed: list[BaseException] = []
    crank = Crank()
    watcher = Watcher(
        ignore,
        max_operation_time=1,
        retry_abandoned=True,
        on_failure=lambda failed, error: handed.append(error),
    )
    crank.enqueue(Operation(watcher, 1, None))
    crank.turn()
    crank.run(2)
    assert crank.engine.open_work.totals.failed == 1
    assert crank.calls[-1].job.function is watcher.on_failure
