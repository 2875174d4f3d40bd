"""Runs callbacks: plain functions on a thread each, coroutines on one event loop.

Nothing waits here: a job that is handed over starts immediately, on an idle thread or a new one, so
that no budget is charged for work that stands in a queue (law B4).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from dispatcher._not_started import NotStarted
from limiters._support.callables import awaited_result_of, keep_last_raise, result_of
from limiters._support.rate_limited_log import RateLimitedLog

IDLE_SECONDS = 10.0
"""Seconds for which a thread with nothing to do is kept."""

NO_THREAD_DELAY = 0.1
"""Seconds before work is tried again for which the system could start no thread."""

Done = Callable[[BaseException | None], None]


class Job:
    """One call of user code. `starting` is called before it and may prevent it; `done` is called
    with its error, or None, when it has ended."""

    __slots__ = ("arguments", "context", "done", "function", "starting")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        *,
        done: Done,
        starting: Callable[[], bool] | None = None,
        context: tuple[ContextVar[Any], Any] | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.done = done
        self.starting = starting
        self.context = context

    def may_start(self) -> bool:
        """Return whether the call may begin. If it may not, call `done` with NotStarted."""
        if self.starting is None or self.starting():
            return True
        self.done(NotStarted())
        return False

    def call(self) -> None:
        """Call a plain function, then `done`."""
        if not self.may_start():
            return
        leave = self.enter()
        error: BaseException | None = None
        try:
            result_of(self.function, *self.arguments)
        except BaseException as caught:
            keep_last_raise(caught)
            error = caught
        finally:
            leave()
        self.done(error)
        del error  # its traceback refers to this frame

    async def call_async(self) -> None:
        """Await a coroutine function as a task, then call `done`."""
        if not self.may_start():
            return
        self.enter()  # the task's context is its own: there is nothing to reset
        error: BaseException | None = None
        try:
            await awaited_result_of(self.function, *self.arguments)
        except BaseException as caught:
            keep_last_raise(caught)
            error = caught
        self.done(error)
        del error

    def enter(self) -> Callable[[], None]:
        """Set the context variable. Return a function that resets it."""
        if self.context is None:
            leave = _nothing
        else:
            variable, value = self.context
            token = variable.set(value)
            leave = lambda: variable.reset(token)  # noqa: E731
        return leave


class Threads:
    """Runs each job on a thread of its own; idle threads are used again, the latest first.

    Only one thread is woken at a time: it wakes the next one before it begins its job. While jobs
    are short, it has done all of them before the next thread is awake. (If a thread were woken for
    each job, all of them would compete for the interpreter.)

    There is no lock: `append`, `pop` and `remove` of a deque are single steps. Each side writes
    before it reads what the other side writes. So no job is left without a thread that is awake or
    being woken; at worst one thread too many is woken.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: deque[Job] = deque()
        self._idle: deque[_Worker] = deque()
        self._waking = False
        self.closed = False
        """Whether idle threads are to end."""

    def start(self, job: Job) -> None:
        """Run `job` now. Raise RuntimeError if no thread can be started."""
        self._jobs.append(job)
        if self._waking:
            return
        try:
            self._wake_one()
        except RuntimeError:
            with contextlib.suppress(ValueError):  # a thread has taken it meanwhile
                self._jobs.remove(job)
                raise

    def close(self) -> None:
        """End the idle threads. A thread that runs a job ends after it."""
        self.closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().wake()

    def awake(self) -> None:
        """Note that a worker was woken. It calls this before it looks for a job."""
        self._waking = False

    def take(self) -> Job | None:
        """Return a job for a worker to begin now, if there is one."""
        try:
            job = self._jobs.popleft()
        except IndexError:
            return None
        if self._jobs and not self._waking:
            with contextlib.suppress(RuntimeError):  # the first free worker takes the job
                self._wake_one()
        return job

    def rest(self, worker: _Worker) -> bool:
        """Return whether `worker` is idle now and will be woken. False: a job has just come."""
        self._idle.append(worker)
        return not self._jobs or not self.leave_idle(worker)

    def leave_idle(self, worker: _Worker) -> bool:
        """Return whether `worker` was still idle. If it was not, another thread is waking it."""
        try:
            self._idle.remove(worker)
        except ValueError:
            return False
        return True

    def _wake_one(self) -> None:
        self._waking = True
        try:
            self._idle.pop().wake()
        except IndexError:
            try:
                _Worker(self._name, self).start()
            except RuntimeError:
                self._waking = False
                raise


class _Worker(threading.Thread):
    def __init__(self, name: str, threads: Threads) -> None:
        super().__init__(name=f"{name}-callback", daemon=True)
        self._threads = threads
        self._gate = threading.Lock()
        self._gate.acquire()

    def wake(self) -> None:
        self._gate.release()

    def run(self) -> None:
        threads = self._threads
        threads.awake()
        while True:
            while (job := threads.take()) is not None:
                job.call()
                del job  # its operations must not live until the next one comes
            if threads.closed:
                return
            if not threads.rest(self):
                continue
            if not self._gate.acquire(timeout=IDLE_SECONDS):
                if threads.leave_idle(self):
                    return
                self._gate.acquire()
            threads.awake()


class Loop:
    """One event loop on a thread of its own, which starts with the first coroutine."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Job) -> None:
        """Run `job` as a task. Raise RuntimeError or OSError if the loop cannot be started."""
        if self._loop is None:
            self._loop = self._started()
        self._loop.call_soon_threadsafe(self._begin, job)

    def _started(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, name=f"{self._name}-loop", args=(loop,), daemon=True
        )
        try:
            self._thread.start()
        except BaseException:
            loop.close()
            raise
        return loop

    def close(self, timeout: float = 1.0) -> None:
        """Cancel the tasks that still run, and end the loop."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                loop.run_until_complete(asyncio.wait(self._tasks, timeout=0.5))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _begin(self, job: Job) -> None:
        assert self._loop is not None
        task = self._loop.create_task(job.call_async())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Runners:
    """The threads and the event loop of one Batcher, and how many more threads it may use."""

    MOST_THREADS = 2_000

    def __init__(self, name: str) -> None:
        self._threads = Threads(name)
        self._loop = Loop(name)
        self._most_threads = self.MOST_THREADS
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.batcher"), most=1)
        self.threads_used = 0

    @property
    def threads_left(self) -> int:
        """How many more plain functions may run at the same time."""
        return self._most_threads - self.threads_used

    def start(self, job: Job, *, on_loop: bool) -> bool:
        """Run `job` now. Return False if the system can start no thread for it at present."""
        try:
            (self._loop if on_loop else self._threads).start(job)
        except (RuntimeError, OSError):
            self._complain()
            if not on_loop:
                self._most_threads = max(1, self.threads_used)
            return False
        if not on_loop:
            self.threads_used += 1
        return True

    def _complain(self) -> None:
        self._damped.log(
            logging.WARNING,
            "the system starts no more threads; callbacks use %d",
            self.threads_used,
            extra={"happening": "no-thread", "threads": self.threads_used},
        )

    def ended(self, *, on_loop: bool) -> None:
        """Note that a job has ended. The system may have threads again that it refused before."""
        if not on_loop:
            self.threads_used -= 1
            self._most_threads = self.MOST_THREADS

    def close(self) -> None:
        """End idle threads and the loop. No job may be started after this."""
        self._threads.close()
        self._loop.close()


def _nothing() -> None:
    pass
