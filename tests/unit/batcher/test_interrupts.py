"""Laws B2, B3 and B11: the counts stay right if a caller is interrupted, at any bytecode."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from dispatcher import BufferFullError, Operation, Watcher
from limiters import Limits, ProvisionedResource, Rate, SharedResource
from limiters._costs import Costs
from limiters.testing import ManualClock
from tests.crank import Crank, batchable, ignore
from tests.interrupting import ERRORS, SoftLimitError, each_point
from tests.samples import grid

SIZE, COST = 4, 2


class CostsInNumbers:
    """Costs in numbers, which `Batcher.enqueue` accepts on its fast path."""

    cost: Any = COST
    batch_cost: Any = 0
    sparse = 1
    """One of so many points is tried."""

    def crank(self) -> Crank:
        return Crank(buffer_size=SIZE)

    def watcher(self, size: int | None = None) -> Watcher:
        return Watcher(ignore, max_batch_size=size, batch_cost=self.batch_cost)

    def of(self, count: int) -> Any:
        """Return the cost of so many operations in a Batcher."""
        return COST * count


class CostsByDimension(CostsInNumbers):
    """Costs that are checked before they are accepted."""

    sparse = 4
    cost: Any = Costs({"tokens": COST})
    batch_cost: Any = Costs({"requests": 1})
    limits = Limits(tokens=Rate(1_000), requests=Rate(1_000))

    def crank(self) -> Crank:
        clock = ManualClock()
        limiter = ProvisionedResource(self.limits, clock=clock)
        return Crank(limiter=limiter, clock=clock, buffer_size=SIZE)

    def of(self, count: int) -> Any:
        return {"tokens": COST * count} if count else {}


class CostsOfOneDimension(CostsByDimension):
    """Costs in a dimension that are converted to numbers."""

    batch_cost = Costs({"tokens": 1})
    limits = Limits(tokens=Rate(1_000))

    def of(self, count: int) -> Any:
        return COST * count


kinds = pytest.mark.parametrize(
    "costs", [CostsInNumbers(), CostsByDimension(), CostsOfOneDimension()]
)


def make(costs: CostsInNumbers, known: Watcher, count: int) -> list[Operation]:
    """Return some operations of a watcher that is registered, and some of a new one."""
    watchers, cost = itertools.cycle([known, costs.watcher(2)]), costs.cost
    return [
        Operation(next(watchers), cost, number, batchable=number != 1, key="k" if number else None)
        for number in range(count)
    ]


def raised(crank: Crank) -> list[Operation]:
    """Raise all waiting operations, end them, and return them."""
    found: list[Operation] = []
    crank.run(crank.engine.audit_interval + 1)
    while crank.calls:
        found += [operation for call in crank.calls for operation in call.operations]
        crank.end_all()
        crank.run(1)
    return found


def check_each(
    crank: Crank, costs: CostsInNumbers, operations: list[Operation], where: str
) -> None:
    """Check that each operation was accepted and is raised once, or was not and may be enqueued
    again."""
    target, _, waiting = crank.engine.open_work.read()
    accepted = raised(crank)
    assert (target, waiting) == (costs.of(len(accepted)), len(accepted)), where
    assert len(set(accepted)) == len(accepted), where
    for operation in operations:
        if operation not in accepted:
            crank.enqueue(operation)
            assert raised(crank) == [operation], where
    assert crank.engine.open_work.read() == (0, 0, 0), where
    # Every place has come back.
    watcher = Watcher(ignore)
    fill = [Operation(watcher, 0, n, batchable=True) for n in range(SIZE)]
    for operation in fill:
        crank.enqueue(operation)
    with pytest.raises(BufferFullError):
        crank.enqueue(Operation(watcher, 0, None, batchable=True))
    assert raised(crank) == fill, where


@pytest.mark.parametrize(("count", "error"), grid([1, 3, SIZE + 1], ERRORS, every=3))
@kinds
def test_b2_an_interrupted_enqueue_many_accepts_each_operation_or_leaves_no_trace_of_it(
    costs: CostsInNumbers, count: int, error: type[BaseException]
) -> None:
    crank, known = costs.crank(), costs.watcher(3)
    made: list[list[Operation]] = []

    def prepare() -> Callable[[], object]:
        made.append(make(costs, known, count))

        def call() -> None:
            try:
                crank.entrance.enqueue_many(made[-1])
            except BufferFullError:
                assert count > SIZE

        return call

    for where in each_point(prepare, error=error, every_bytecode=True, step=7 * costs.sparse):
        check_each(crank, costs, made[-1], where)


@pytest.mark.parametrize(("batchable", "error"), grid([True, False], ERRORS, every=3))
@kinds
def test_b2_an_interrupted_enqueue_accepts_its_operation_or_leaves_no_trace(
    costs: CostsInNumbers, batchable: bool, error: type[BaseException]
) -> None:
    crank, known = costs.crank(), costs.watcher(3)
    made: list[list[Operation]] = []
    watchers = itertools.cycle([known, None])

    def prepare() -> Callable[[], object]:
        watcher = next(watchers) or costs.watcher()
        made.append([Operation(watcher, costs.cost, None, batchable=batchable)])
        return lambda: crank.entrance.enqueue(made[-1][0])

    for where in each_point(prepare, error=error, every_bytecode=True, step=costs.sparse):
        check_each(crank, costs, made[-1], where)


def test_b2_a_claim_whose_call_was_interrupted_twice_is_void() -> None:
    crank, watcher = Crank(), Watcher(ignore)
    operation = Operation(watcher, 1, None, batchable=True)
    operation._where = crank.buffer  # claimed, and not published
    crank.enqueue(operation)
    assert raised(crank) == [operation]


def test_b3_a_refused_enqueue_leaves_nothing_in_memory() -> None:
    crank, watcher = Crank(buffer_size=1), Watcher(ignore)
    crank.enqueue(Operation(watcher, 1, None, batchable=True))
    for _ in range(100):
        with pytest.raises(BufferFullError):
            crank.entrance.enqueue(Operation(watcher, 1, None, batchable=True), timeout=0)
        with pytest.raises(BufferFullError):
            crank.entrance.enqueue_many(batchable(watcher, *range(3)))
    assert len(crank.buffer.inbox) == 1
    assert not crank.buffer.line


@pytest.mark.parametrize("error", ERRORS)
def test_c3_an_interrupted_acquire_blocks_no_other_and_keeps_nothing(
    error: type[BaseException],
) -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(1_000, clock=clock)
    limiter.start()
    costs = itertools.cycle([1, 1_000])
    for where in each_point(
        lambda: functools.partial(limiter.acquire, next(costs), timeout=0), error=error
    ):
        clock.advance(2.1)
        assert limiter.acquire(1_000, timeout=5), where
        clock.advance(2.1)
        with limiter._lock:
            (ledger,) = limiter._ledgers
            assert ledger.spent(clock.now()) == ledger.pledged == 0, where
        assert limiter.standing().demand == 0, where


def test_c3_an_interrupted_acquire_of_a_shared_limit_keeps_nothing() -> None:
    clock = ManualClock()
    limiter = SharedResource(reserved_capacity=1_000, clock=clock)
    with limiter:
        for where in each_point(lambda: functools.partial(limiter.acquire, 600, timeout=0)):
            clock.advance(2.1)
            assert limiter.acquire(1_000, timeout=5), where
            clock.advance(2.1)
            (ledger,) = limiter._budget.reserved_ledgers
            assert ledger.spent(clock.now()) == ledger.pledged == 0, where
            assert limiter.standing().demand == 0, where


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # it was interrupted before
def test_c3_an_interrupted_acquire_async_blocks_no_other() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(1_000, clock=clock)
    limiter.start()

    async def acquire() -> None:
        await limiter.acquire_async(1, timeout=0)

    for where in each_point(lambda: lambda: asyncio.run(acquire()), error=SoftLimitError):
        clock.advance(2.1)
        assert limiter.acquire(1_000, timeout=5), where
        clock.advance(2.1)
