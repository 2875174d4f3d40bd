"""An engine turned by hand: manual time, no threads, callbacks that end when the test says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dispatcher import Event, Operation, Watcher
from dispatcher._core.admission import Admission
from dispatcher._core.batches.executors import Job, Runners
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.engine import Engine
from dispatcher._core.environment import Environment
from dispatcher._core.mailbox import Mailbox
from dispatcher._core.observers import Observed
from dispatcher._core.options import BatcherOptions
from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.buffer import Buffer
from dispatcher.batcher import Batcher
from limiters import ProvisionedResource, RateLimiter
from limiters._support.wake_signal import WakeSignal
from limiters.testing import ManualClock


class Call:
    """A callback that was entered and has not ended."""

    def __init__(self, crank: Crank, job: Job) -> None:
        self.job = job
        self.operations: list[Operation] = job.arguments[0]
        self._crank = crank

    @property
    def payloads(self) -> list[Any]:
        return [operation.payload for operation in self.operations]

    def end(self, error: BaseException | None = None) -> None:
        """The callback returns, or raises `error`; the engine receives it at its next turn."""
        if self in self._crank.calls:
            self._crank.calls.remove(self)
        self.job.done(error)

    def inside(self) -> Call:
        """As the code of the callback: `with call.inside(): enqueue(...)`."""
        return self

    def __enter__(self) -> Call:
        self._leave = self.job.enter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leave()


class HandRunners(Runners):
    """Runs nothing: it keeps the jobs for the test to end."""

    def __init__(self, crank: Crank) -> None:
        super().__init__("test")
        self.crank = crank
        self.refusing = False
        self.busy = False
        """Whether what is handed over has to wait for a thread, until `go_on`."""
        self.waiting: list[Job] = []

    def start(self, job: Job, *, on_loop: bool) -> bool:
        if self.refusing:
            return False
        if not on_loop:
            self.threads_used += 1
        if self.busy:
            self.waiting.append(job)
        else:
            self._enter(job)
        return True

    def go_on(self) -> None:
        """All that waits for a thread has one."""
        self.busy = False
        waiting, self.waiting = self.waiting, []
        for job in waiting:
            self._enter(job)

    def _enter(self, job: Job) -> None:
        if job.may_start():
            call = Call(self.crank, job)
            self.crank.calls.append(call)
            self.crank.raised.append((self.crank.clock.now(), call.operations))


class Home:
    """Work without a waiting caller: the crank is turned by hand."""

    forked = False

    def check_fork(self) -> None:
        pass

    def wait_for(self, watcher: Watcher, timeout: float | None) -> bool:
        raise NotImplementedError


class Entrance(Batcher):
    """The ways into a Batcher, with no Batcher behind them."""

    def __init__(self, buffer: Buffer, costs: CostTerms) -> None:
        home = Home()
        self._buffer = buffer
        self._engine_thread = home  # type: ignore[assignment]
        self._admission = Admission(buffer, home, costs, error_on_full_buffer=True)


class Crank:
    """Everything of a Batcher but its thread."""

    def __init__(
        self,
        *,
        limiter: RateLimiter | None = None,
        clock: ManualClock | None = None,
        buffer_size: int = 10_000,
        **options: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.buffer = Buffer(buffer_size, self._ring)
        self.rung = False
        self.calls: list[Call] = []
        self.raised: list[tuple[float, list[Operation]]] = []
        self.events: list[Event] = []
        self.runners = HandRunners(self)
        self.mailbox = Mailbox(WakeSignal().ring)
        environment = Environment(
            options=BatcherOptions(rate_limiter=limiter, **options),
            mailbox=self.mailbox,
            runners=self.runners,
            emit=lambda *event: self.emit(*event),
            clock=self.clock.now,
            observed=Observed(),
        )
        self.engine = Engine(self.buffer, environment)
        self.entrance = Entrance(self.buffer, self.engine.costs)
        self.wake = 0.0
        self.turn()

    def _ring(self) -> None:
        self.rung = True

    def emit(self, name: str, value: float = 0, message: str = "", metadata: object = None) -> None:
        self.events.append(Event(name, value, message, metadata))

    def enqueue(self, *operations: Operation) -> None:
        for operation in operations:
            self.entrance.enqueue(operation)

    def turn(self) -> None:
        """One turn, and those that it asks for immediately."""
        self.rung = False
        for _ in range(100):
            self.wake = self.engine.turn(self.clock.now())
            if self.engine.finished and not self.mailbox:
                self.wake = FOREVER
            if self.wake > self.clock.now() and not self.mailbox:
                return
        raise AssertionError("the engine does not come to rest")

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        self.engine.post(function, *arguments)
        self.turn()

    def run(self, seconds: float, at_turn: Callable[[], None] | None = None) -> None:
        """Lets time pass, turning whenever the engine asked for it or was rung."""
        end = self.clock.now() + seconds
        while True:
            if at_turn is not None:
                at_turn()
            if self.rung or self.mailbox or self.wake <= self.clock.now():
                self.turn()
                continue
            step = min(self.wake, end) - self.clock.now()
            if step <= 0:
                return
            self.clock.advance(step)
            if self.clock.now() >= end - 1e-12 and self.wake > end:
                return

    def flush(self) -> None:
        self.post(self.engine.flush)

    def end_all(self, error: BaseException | None = None) -> None:
        for call in list(self.calls):
            call.end(error)
        self.turn()

    def handing_over(self, call: Call) -> bool:
        """Whether it is a failure callback, not a batch."""
        return call.job.context is None or not isinstance(call.job.context[1], OperationBatch)

    def batches_in_flight(self) -> set[OperationBatch]:
        return self.engine.open_work.inflight

    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def stop(self) -> list[Operation]:
        """Stops; what was given back so far."""
        self.buffer.close()
        self.post(self.engine.stop)
        return self.engine.batch_end.given_back or []


FOREVER = math.inf


def ignore(batch: list[Operation]) -> None:
    pass


def batchable(watcher: Watcher, *payloads: Any, cost: Any = 1, **kwargs: Any) -> list[Operation]:
    return [Operation(watcher, cost, one, batchable=True, **kwargs) for one in payloads]


def limited(capacity: float, **settings: Any) -> Crank:
    clock = ManualClock()
    return Crank(limiter=ProvisionedResource(capacity, clock=clock), clock=clock, **settings)


def ends(crank: Crank) -> Any:
    def end() -> None:
        for call in list(crank.calls):
            call.end()

    return end
