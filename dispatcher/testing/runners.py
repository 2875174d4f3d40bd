"""Run callbacks one after the other, on the calling thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dispatcher._core.batches.executors import Job, Runners
from dispatcher._core.queues.batch import OperationBatch
from dispatcher.operation import Operation
from dispatcher.watcher import Watcher
from limiters._costs import AnyCost


@dataclass(slots=True)
class RaisedBatch:
    """A batch that was raised, as an InlineBatcher records it."""

    at: float
    """When its callback was called."""
    watcher: Watcher
    operations: list[Operation]
    error: BaseException | None = None
    """The error that its callback raised, if any."""

    @property
    def payloads(self) -> list[Any]:
        """The payloads of its operations, in their order."""
        return [operation.payload for operation in self.operations]

    @property
    def cost(self) -> AnyCost:
        """The sum of its operations' costs."""
        return sum(operation.cost for operation in self.operations)


class InlineRunners(Runners):
    """Keeps jobs until `run`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.clock: Callable[[], float] = lambda: 0.0
        self.batches: list[RaisedBatch] = []
        self._jobs: deque[tuple[Job, bool]] = deque()
        self._loop_of_mine: asyncio.AbstractEventLoop | None = None

    def start(self, job: Job, *, on_loop: bool) -> bool:
        """Add `job`: the caller is in the middle of a step."""
        if not on_loop:
            self.threads_used += 1
        if job.context is not None and isinstance(job.context[1], OperationBatch):
            self._note(job, job.context[1].lane.watcher)
        self._jobs.append((job, on_loop))
        return True

    def run(self) -> bool:
        """Run the jobs. Return whether there were any."""
        some = bool(self._jobs)
        while self._jobs:
            job, on_loop = self._jobs.popleft()
            if on_loop:
                self._complete(job)
            else:
                job.call()
        return some

    def close(self) -> None:
        """Close the event loop."""
        super().close()
        if self._loop_of_mine is not None:
            self._loop_of_mine.close()
            self._loop_of_mine = None

    def _note(self, job: Job, watcher: Watcher) -> None:
        function, done = job.function, job.done
        raised = RaisedBatch(0.0, watcher, [])

        def entered(operations: list[Operation]) -> Any:
            raised.at = self.clock()
            raised.operations = list(operations)
            self.batches.append(raised)
            return function(operations)

        def ended(error: BaseException | None) -> None:
            raised.error = error
            done(error)

        job.function, job.done = entered, ended

    def _complete(self, job: Job) -> None:
        if self._loop_of_mine is None:
            self._loop_of_mine = asyncio.new_event_loop()
        loop = self._loop_of_mine
        if not _in_a_loop():
            loop.run_until_complete(job.call_async())
            return
        # A thread has one loop at a time, and the test runs in one: it waits for this one.
        thread = threading.Thread(target=lambda: loop.run_until_complete(job.call_async()))
        thread.start()
        thread.join()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
