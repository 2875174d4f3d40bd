"""Random histories of one Batcher in virtual time, checked against a plain model after every
step: laws B1 (order), B2 (each ends once), B3 (the target), B7, B8."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import suppress
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tenacity import stop_after_attempt, wait_fixed

from dispatcher import (
    AlreadyEnqueuedError,
    BufferFullError,
    Operation,
    PartialFailure,
    Reject,
    Retry,
    Throttled,
    TooManyAttemptsError,
    Watcher,
)
from dispatcher.operation import Claim
from limiters import InFlight, Limits, ProvisionedResource, Rate
from limiters._costs import Costs
from limiters.testing import ManualClock
from tests.crank import Crank
from tests.examples import examples

KEYS = st.sampled_from([None, None, "a", "b"])


class CoreMachine(RuleBasedStateMachine):
    @initialize(
        size=st.integers(3, 30),
        slots=st.one_of(st.none(), st.integers(1, 4)),
        capacity=st.one_of(st.none(), st.just(20)),
    )
    def build(self, size: int, slots: int | None, capacity: int | None) -> None:
        clock = ManualClock()
        self.crank = Crank(
            limiter=self.limiter(clock, capacity),
            clock=clock,
            buffer_size=size,
            max_concurrent_batches=slots,
            max_operation_time=5,
            audit_interval=3,
        )
        self.accepted: set[Operation] = set()
        self.acceptances = 0
        self.made: list[Operation] = []
        self.watchers = [
            Watcher(print, max_batch_size=3, on_failure=print, batch_cost=self.batch_cost),
            Watcher(
                print,
                retry=(wait_fixed(1), stop_after_attempt(3)),
                retry_abandoned=True,
                batch_cost=self.call,
            ),
            Watcher(print, max_attempts=2, max_batch_size=1, batch_cost=self.batch_cost),
        ]
        self.seen = 0
        self.first_raised: dict[Operation, int] = {}

    batch_cost: Any = 0
    call: Any = 0
    """The cost of a batch that has no other one of its own."""

    def limiter(self, clock: ManualClock, capacity: int | None) -> ProvisionedResource | None:
        return None if capacity is None else ProvisionedResource(capacity, clock=clock)

    def cost(self, number: int) -> Any:
        return number

    def accept(self, *operations: Operation) -> None:
        self.accepted.update(operations)
        self.acceptances += len(operations)

    @rule(
        watcher=st.integers(0, 2),
        cost=st.integers(0, 8),
        key=KEYS,
        priority=st.integers(0, 2),
        batchable=st.booleans(),
    )
    def enqueue(
        self, watcher: int, cost: int, key: str | None, priority: int, batchable: bool
    ) -> None:
        operation = Operation(
            self.watchers[watcher],
            self.cost(cost),
            len(self.made),
            batchable=batchable,
            key=key,
            priority=priority,
        )
        before = self.crank.engine.open_work.read()
        try:
            self.crank.enqueue(operation)
        except BufferFullError:
            assert self.crank.engine.open_work.read() == before
            assert before[2] >= self.crank.buffer.size
        else:
            assert before[2] < self.crank.buffer.size
            self.accept(operation)
            self.made.append(operation)

    @rule(count=st.integers(1, 6), key=KEYS, batchable=st.booleans())
    def enqueue_many(self, count: int, key: str | None, batchable: bool) -> None:
        operations = [
            Operation(
                self.watchers[0], self.cost(1), len(self.made) + n, batchable=batchable, key=key
            )
            for n in range(count)
        ]
        before = self.crank.engine.open_work.read()
        try:
            self.crank.entrance.enqueue_many(operations)
        except BufferFullError:
            assert self.crank.engine.open_work.read() == before
        else:
            self.accept(*operations)
            self.made += operations

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def enqueue_again(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(self.made))
        live = operation in self.accepted
        try:
            self.crank.enqueue(operation)
        except AlreadyEnqueuedError:
            assert live
        except (BufferFullError, TooManyAttemptsError):
            pass
        else:
            assert not live
            self.accept(operation)

    @precondition(lambda self: self.crank.calls)
    @rule(
        data=st.data(),
        how=st.sampled_from(["done", "error", "retry", "reject", "partial", "throttled"]),
        requeue=st.booleans(),
    )
    def end_a_callback(self, data: st.DataObject, how: str, requeue: bool) -> None:
        call = data.draw(st.sampled_from(self.crank.calls))
        error: BaseException | None = None
        if how == "error":
            error = OSError()
        elif how == "retry":
            error = Retry(after=0.5)
        elif how == "reject":
            error = Reject("no")
        elif how == "partial":
            error = PartialFailure(data.draw(st.lists(st.sampled_from(call.operations))))
        elif how == "throttled":
            error = Throttled(0.3)
        if requeue and not self.crank.handing_over(call):
            again = data.draw(st.lists(st.sampled_from(call.operations), unique=True))
            with call.inside():
                for operation in again:
                    with suppress(AlreadyEnqueuedError, TooManyAttemptsError, BufferFullError):
                        live = operation in self.accepted
                        self.crank.enqueue(operation)
                        if not live:  # its batch was abandoned: this is a new beginning
                            self.accept(operation)
        call.end(error)
        self.crank.turn()

    @rule(seconds=st.floats(0.001, 4))
    def let_time_pass(self, seconds: float) -> None:
        self.crank.run(seconds)

    @rule()
    def turn(self) -> None:
        self.crank.turn()

    @rule(seconds=st.one_of(st.none(), st.floats(0.1, 2)))
    def pause(self, seconds: float | None) -> None:
        self.crank.post(self.crank.engine.pausing.begin, seconds)

    @rule()
    def resume(self) -> None:
        self.crank.post(self.crank.engine.pausing.end)

    @rule()
    def flush(self) -> None:
        self.crank.flush()

    def live(self) -> set[Operation]:
        """Return the operations that are live by their own state."""
        return {
            o
            for o in self.made
            if isinstance(o._where, int)
            or (isinstance(o._where, Claim) and o._where.holds(o))
            or (o._where is not None and o._where in self.crank.batches_in_flight())
        }

    def is_cost_of(self, target: Any, operations: set[Operation]) -> bool:
        return math.isclose(target, sum(o.cost for o in operations), abs_tol=1e-6)

    @invariant()
    def books_are_right(self) -> None:
        self.accepted &= self.live()
        target, inflight, waiting = self.crank.engine.open_work.read()
        assert self.is_cost_of(target, self.accepted)
        assert inflight == len(self.crank.batches_in_flight())
        flying = [o for b in self.crank.batches_in_flight() for o in b.operations]
        assert len(set(flying)) == len(flying)
        assert waiting == len(self.accepted) - len(flying)
        assert "audit-fail" not in self.crank.names()

    @invariant()
    def each_ends_once(self) -> None:
        totals = self.crank.engine.open_work.totals
        ways = (totals.done, totals.failed, totals.abandoned, totals.returned)
        assert min(ways) >= 0
        assert sum(ways) == self.acceptances - len(self.accepted)

    @invariant()
    def a_key_is_in_one_batch_at_a_time(self) -> None:
        holders: dict[object, int] = defaultdict(int)
        for call in self.crank.calls:
            if not self.crank.handing_over(call):
                for key in {(o.watcher, o.key) for o in call.operations if o.key is not None}:
                    holders[key] += 1
        assert all(number == 1 for number in holders.values())

    @invariant()
    def first_raises_of_a_key_come_in_order(self) -> None:
        for _, batch in self.crank.raised[self.seen :]:
            for operation in batch:
                self.first_raised.setdefault(operation, len(self.first_raised))
        self.seen = len(self.crank.raised)
        order: dict[object, int] = {}
        for operation in self.first_raised:
            if operation.key is not None:
                key = (operation.watcher, operation.key)
                assert order.get(key, -1) < operation.payload
                order[key] = operation.payload

    def teardown(self) -> None:
        if not hasattr(self, "crank"):
            return
        # Whatever is left ends: callbacks return, the rest is given back, nothing remains.
        self.crank.stop()
        for _ in range(3):
            self.crank.end_all()
        self.crank.run(20)
        returned = self.crank.engine.batch_end.given_back or []
        assert len(set(returned)) == len(returned)
        assert self.crank.engine.open_work.read() == (0, 0, 0)
        assert all(o._where is None for o in returned)
        assert self.live() == set()
        self.accepted.clear()
        self.each_ends_once()
        assert self.crank.runners.threads_used == 0


class CoreMachineOfSeveralDimensions(CoreMachine):
    """The laws of the core where costs have several dimensions and batches cost something
    themselves; and at most three callbacks run, abandoned ones included (law N1)."""

    batch_cost = Costs({"a": 1, "calls": 1})
    call = Costs({"calls": 1})

    def limiter(self, clock: ManualClock, capacity: int | None) -> ProvisionedResource:
        limits = Limits(a=Rate(20), b=Rate(15, also=[Rate(13, per=0.3)]), calls=InFlight(3))
        return ProvisionedResource(limits, clock=clock)

    def cost(self, number: int) -> Any:
        return Costs({"a": number, "b": 3 * number % 7})

    def is_cost_of(self, target: Any, operations: set[Operation]) -> bool:
        return bool(target == sum((o.cost for o in operations), Costs()))

    @invariant()
    def no_more_calls_run_than_there_may(self) -> None:
        running = [call for call in self.crank.calls if not self.crank.handing_over(call)]
        assert len(running) <= 3

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "crank"):
            limiter = self.crank.engine.limiter
            assert limiter is not None
            grant = limiter.grant({"calls": 3}, claimant=self.crank.engine.demand)
            assert grant.fits(Costs({"calls": 3}))


TestCoreMachine = CoreMachine.TestCase
TestCoreMachineOfSeveralDimensions = CoreMachineOfSeveralDimensions.TestCase
TestCoreMachine.settings = TestCoreMachineOfSeveralDimensions.settings = settings(
    max_examples=examples(200),
    stateful_step_count=50,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
