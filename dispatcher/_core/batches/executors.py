"""Who runs callbacks: a thread each for plain functions, one event loop for coroutines.

Nothing waits here: a job that is handed over starts at once, on an idle thread or a new one,
so that no budget is charged for work that stands in a queue (law B4).
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
"""How long a thread with nothing to do is kept."""

NO_THREAD_DELAY = 0.1
"""How long work rests for which the system would start no thread."""

Done = Callable[[BaseException | None], None]


class Job:
    """One call of user code: what to do first, what to call, whom to tell how it ended."""

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
        """Notes the start, unless it may not begin any more: whom to tell is told then."""
        if self.starting is None or self.starting():
            return True
        self.done(NotStarted())
        return False

    def call(self) -> None:
        """Makes the call, of a plain function, and tells how it ended."""
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
        """The same for a coroutine function, as a task."""
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
        """Sets the context. What it gives resets it."""
        if self.context is None:
            leave = _nothing
        else:
            variable, value = self.context
            token = variable.set(value)
            leave = lambda: variable.reset(token)  # noqa: E731
        return leave


class Threads:
    """As many threads as there are jobs at once; idle ones are used again, latest first.

    Only one thread is woken at a time: it wakes the next one before it begins its job, and
    while jobs are short it has done them all before the next one is awake. (Waking a thread
    for each job makes all of them stand in line for the interpreter.)

    There is no lock: `append`, `pop` and `remove` of a deque are single steps. Each side
    writes before it reads what the other side writes, so that no job is left without a
    thread that is awake or being woken; at worst one too many is woken.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: deque[Job] = deque()
        self._idle: deque[_Worker] = deque()
        self._waking = False
        self.closed = False
        """Whether idle threads are to end."""

    def start(self, job: Job) -> None:
        """Runs `job` now. RuntimeError: no thread can be started."""
        self._jobs.append(job)
        if self._waking:
            return
        try:
            self._wake_one()
        except RuntimeError:
            with contextlib.suppress(ValueError):  # somebody has taken it: all is well
                self._jobs.remove(job)
                raise

    def close(self) -> None:
        """Ends the idle threads; those at work end after it."""
        self.closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().wake()

    def awake(self) -> None:
        """For a worker that was woken, before it looks for a job."""
        self._waking = False

    def take(self) -> Job | None:
        """For a worker: a job to begin at once, if there is one."""
        try:
            job = self._jobs.popleft()
        except IndexError:
            return None
        if self._jobs and not self._waking:
            with contextlib.suppress(RuntimeError):  # whoever is done first takes the next job
                self._wake_one()
        return job

    def rest(self, worker: _Worker) -> bool:
        """Whether `worker` is idle now, to be woken: not if a job came in this very moment."""
        self._idle.append(worker)
        return not self._jobs or not self.leave_idle(worker)

    def leave_idle(self, worker: _Worker) -> bool:
        """Whether `worker` was idle still; otherwise somebody is waking it."""
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
    """One event loop on a thread of its own, started when the first coroutine comes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Job) -> None:
        """Runs `job` as a task. RuntimeError or OSError: the loop cannot be started."""
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
        """Cancels what still runs and ends the loop."""
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
    """Both, and how many more threads there may be."""

    MOST_THREADS = 2_000

    def __init__(self, name: str) -> None:
        self._threads = Threads(name)
        self._loop = Loop(name)
        self._most_threads = self.MOST_THREADS
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.batcher"), most=1)
        self.threads_used = 0

    @property
    def threads_left(self) -> int:
        """How many more plain functions may run at once."""
        return self._most_threads - self.threads_used

    def start(self, job: Job, *, on_loop: bool) -> bool:
        """Runs `job` now. False: the system gives no more threads, for the time being."""
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
            "the system starts no thread beside %d others",
            self.threads_used,
            extra={"happening": "no-thread", "threads": self.threads_used},
        )

    def ended(self, *, on_loop: bool) -> None:
        """A job that was started has come back. What the system refused before, it may give
        now."""
        if not on_loop:
            self.threads_used -= 1
            self._most_threads = self.MOST_THREADS

    def close(self) -> None:
        """Ends what is idle; nothing is started any more."""
        self._threads.close()
        self._loop.close()


def _nothing() -> None:
    pass
