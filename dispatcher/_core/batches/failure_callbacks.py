"""Hands failed operations to the failure callback of their watcher, and waits for its end.

Owned by the engine; nothing here is thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from dispatcher._core.batches.executors import NO_THREAD_DELAY, Job
from dispatcher._core.batches.failure_log import FailureLog
from dispatcher._core.environment import Environment
from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.batch import CURRENT
from dispatcher._core.queues.lane import Lane
from dispatcher._core.queues.lanes import Lanes
from dispatcher._core.queues.stages import Stage
from dispatcher.operation import Operation


class _HandOver:
    """Failed operations that a failure callback has received."""

    __slots__ = ("deadline", "lane", "on_loop", "operations")

    def __init__(self, lane: Lane, operations: list[Operation], deadline: float) -> None:
        self.lane = lane
        self.operations = operations
        self.deadline = deadline
        self.on_loop = False


class HandingOver:
    """Calls failure callbacks. `time_for` returns how long a callback of a lane may take."""

    def __init__(
        self,
        open_work: OpenWork,
        lanes: Lanes,
        environment: Environment,
        *,
        time_for: Callable[[Lane], float],
        failure_log: FailureLog,
    ) -> None:
        self._open_work = open_work
        self._lanes = lanes
        self._runners = environment.runners
        self._post = environment.mailbox.post
        self._time_for = time_for
        self._failure_log = failure_log
        self._under_way: set[_HandOver] = set()
        self._deferred: list[tuple[Lane, list[Operation], BaseException]] = []
        """Operations for whose failure callback there was no thread."""
        self._next_deadline = math.inf

    def __contains__(self, inside: object) -> bool:
        """Whether `inside`, a value of CURRENT, is a failure callback that has not ended."""
        return inside in self._under_way

    @property
    def pending(self) -> bool:
        """Whether any failure callback runs or waits for a thread."""
        return bool(self._under_way or self._deferred)

    def next_look(self, now: float) -> float:
        """Return the time at which `run_due` has something to do."""
        deferred = now + NO_THREAD_DELAY if self._deferred else math.inf
        return min(deferred, self._next_deadline)

    def run_due(self, now: float) -> None:
        """Give up callbacks that take too long, and make the calls for which there was no
        thread."""
        if now >= self._next_deadline:
            for handing in [one for one in self._under_way if one.deadline <= now]:
                self._failure_log.on_failure_hangs(now, handing.lane.terms.name)
                self._ended(now, handing, None)
            deadlines = (one.deadline for one in self._under_way)
            self._next_deadline = min(deadlines, default=math.inf)
        deferred, self._deferred = self._deferred, []
        for lane, failed, error in deferred:
            self.hand_over(now, lane, failed, error)

    def hand_over(
        self, now: float, lane: Lane, operations: list[Operation], error: BaseException
    ) -> None:
        """Call the failure callback, if there is one. The operations are over when it has
        returned."""
        on_failure = lane.terms.on_failure
        if on_failure is None:
            self._over(lane, operations)
            return
        handing = _HandOver(lane, operations, now + self._time_for(lane))
        handing.on_loop = on_failure.on_loop
        job = Job(
            on_failure.function,
            (list(operations), error),
            done=partial(self._called, handing),
            context=(CURRENT, handing),
        )
        if self._runners.start(job, on_loop=handing.on_loop):
            self._under_way.add(handing)
            self._next_deadline = min(self._next_deadline, handing.deadline)
        else:
            self._deferred.append((lane, operations, error))

    def _called(self, handing: _HandOver, error: BaseException | None) -> None:
        """Post the result to the engine. Called by the thread that ran the callback."""
        self._post(self._returned, handing, error)

    def _returned(self, now: float, handing: _HandOver, error: BaseException | None) -> None:
        self._runners.ended(on_loop=handing.on_loop)
        self._ended(now, handing, error)

    def _ended(self, now: float, handing: _HandOver, error: BaseException | None) -> None:
        if error is not None:
            self._failure_log.on_failure_raised(now, handing.lane.terms.name, error)
        if handing in self._under_way:
            self._under_way.remove(handing)
            self._over(handing.lane, handing.operations)

    def _over(self, lane: Lane, operations: list[Operation]) -> None:
        self._open_work.move(operations, Stage.FAILED, Stage.HANDED_OVER, lane)
        self._lanes.forget_if_idle(lane)
