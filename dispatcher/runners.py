"""Who runs callbacks: a thread each for plain functions, one event loop for coroutines.

Nothing waits here: a job that is handed over starts at once, on an idle thread or a new one,
so that no budget is charged for work that stands in a queue (law B4).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

_log = logging.getLogger(__name__)

IDLE_SECONDS = 10.0
"""How long a thread with nothing to do is kept."""

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
        starting: Callable[[], None] | None = None,
        context: tuple[ContextVar[Any], Any] | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.done = done
        self.starting = starting
        self.context = context

    def enter(self) -> Callable[[], None]:
        """Sets the context and notes the start. What it gives resets the context."""
        if self.context is None:
            leave = _nothing
        else:
            variable, value = self.context
            token = variable.set(value)
            leave = lambda: variable.reset(token)  # noqa: E731
        if self.starting is not None:
            self.starting()
        return leave


class Threads:
    """As many threads as there are jobs at once; idle ones are used again, latest first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: deque[_Worker] = deque()

    def start(self, job: Job) -> None:
        """Runs `job` now. RuntimeError: no thread can be started."""
        try:
            worker = self._idle.pop()
        except IndexError:
            _Worker(self._name, self._idle, job).start()
            return
        worker.run_next(job)

    def close(self) -> None:
        """Ends the idle threads; those at work end after it."""
        while self._idle:
            try:
                self._idle.pop().run_next(None)
            except IndexError:
                return


class _Worker(threading.Thread):
    def __init__(self, name: str, idle: deque[_Worker], job: Job) -> None:
        super().__init__(name=f"{name}-callback", daemon=True)
        self._idle = idle
        self._job: Job | None = job
        self._gate = threading.Lock()
        self._gate.acquire()

    def run_next(self, job: Job | None) -> None:
        self._job = job
        self._gate.release()

    def run(self) -> None:
        while (job := self._job) is not None:
            error = self._call(job)
            done, self._job = job.done, None
            del job  # its operations must not live until the next one comes
            self._idle.append(self)
            done(error)
            del done, error
            if not self._gate.acquire(timeout=IDLE_SECONDS) and self._retire():
                return

    def _retire(self) -> bool:
        try:
            self._idle.remove(self)
        except ValueError:  # a job was handed over in this very moment
            self._gate.acquire()
            return False
        return True

    @staticmethod
    def _call(job: Job) -> BaseException | None:
        leave = job.enter()
        try:
            result = job.function(*job.arguments)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(
                    f"{job.function!r} returned a coroutine; declare it with async def so that "
                    "it is awaited"
                )
        except BaseException as error:
            return error
        finally:
            leave()
        return None


class Loop:
    """One event loop on a thread of its own, started when the first coroutine comes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Job) -> None:
        """Runs `job` as a task."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run, name=f"{self._name}-loop", args=(self._loop,), daemon=True
            )
            self._thread.start()
        self._loop.call_soon_threadsafe(self._begin, job)

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
        task = self._loop.create_task(self._call(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _call(job: Job) -> None:
        job.enter()  # the task's context is its own: there is nothing to reset
        try:
            result: Awaitable[object] = job.function(*job.arguments)
            await result
        except BaseException as error:
            job.done(error)
        else:
            job.done(None)


class Runners:
    """Both, and how many more threads there may be."""

    MOST_THREADS = 2_000

    def __init__(self, name: str) -> None:
        self._threads = Threads(name)
        self._loop = Loop(name)
        self._most_threads = self.MOST_THREADS
        self.threads_used = 0

    @property
    def threads_left(self) -> int:
        """How many more plain functions may run at once."""
        return self._most_threads - self.threads_used

    def start(self, job: Job, *, on_loop: bool) -> bool:
        """Runs `job` now. False: the system gives no more threads, for the time being."""
        if on_loop:
            self._loop.start(job)
            return True
        try:
            self._threads.start(job)
        except RuntimeError:
            _log.warning("no more than %d threads can be started", self.threads_used)
            self._most_threads = max(1, self.threads_used)
            return False
        self.threads_used += 1
        return True

    def ended(self, *, on_loop: bool) -> None:
        """A job that was started has come back."""
        if not on_loop:
            self.threads_used -= 1

    def close(self) -> None:
        """Ends what is idle; nothing is started any more."""
        self._threads.close()
        self._loop.close()


def _nothing() -> None:
    pass
