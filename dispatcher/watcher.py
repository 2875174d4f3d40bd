"""A Watcher: who is told, and on what terms."""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dispatcher.operation import Operation
from dispatcher.retry import RetryPolicy, Stop, Wait
from limiters._support.validation import (
    Seconds,
    flag,
    function,
    optional_count,
    optional_seconds,
)

if TYPE_CHECKING:
    from dispatcher.batcher import Batcher

OnBatch = Callable[[list[Operation]], Awaitable[object] | object]
OnFailure = Callable[[list[Operation], BaseException], Awaitable[object] | object]


class Watcher:
    """Receives the batches of the operations made for it. Short-lived ones are cheap.

    * `on_batch`: takes `list[Operation]`. A plain function runs on a thread, an `async def`
      on the Batcher's event loop; many run at once. Raising means that the batch failed.
    * `max_attempts`: how often an operation may be raised in all.
    * `max_batch_size`: how many operations a batch may hold. None: as many as there are.
    * `max_operation_time`: how long the callback may take before its batch is abandoned;
      None: what the Batcher says.
    * `retry`: a tenacity wait strategy, or a pair `(wait, stop)`: a failed batch is raised
      again by itself. Without it the batch has failed at once.
    * `on_failure`: `on_failure(operations, error)` is handed what is given up.
    * `retry_abandoned`: whether abandoned batches are retried like failed ones.

    Thread-safe.

    >>> from dispatcher import Batcher, Operation, Watcher
    >>> watcher = Watcher(lambda batch: print(len(batch)), max_batch_size=500)
    >>> with Batcher() as batcher:
    ...     batcher.enqueue_many(
    ...         [Operation(watcher, 1, n, batchable=True) for n in range(3)]
    ...     )
    3
    >>> watcher.wait(timeout=10)
    True
    """

    def __init__(
        self,
        on_batch: OnBatch,
        *,
        max_attempts: int | None = None,
        max_batch_size: int | None = None,
        max_operation_time: Seconds | None = None,
        retry: Wait | tuple[Wait, Stop] | None = None,
        on_failure: OnFailure | None = None,
        retry_abandoned: bool = False,
    ) -> None:
        function("on_batch", on_batch)
        if on_failure is not None:
            function("on_failure", on_failure)
        self.on_batch = on_batch
        self.on_failure = on_failure
        self.max_batch_size = optional_count("max_batch_size", max_batch_size)
        self.max_operation_time = optional_seconds("max_operation_time", max_operation_time)
        self.runs_on_loop = is_async(on_batch)
        self.policy = RetryPolicy.of(retry, optional_count("max_attempts", max_attempts))
        self.retry_abandoned = flag("retry_abandoned", retry_abandoned)
        self._batchers: weakref.WeakSet[Batcher] = weakref.WeakSet()
        self._home: Batcher | None = None

    @property
    def max_attempts(self) -> int | None:
        """How often an operation may be raised in all."""
        return self.policy.max_attempts

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Waits until none of its operations is left; False if that takes too long.

        Failed operations have been handed over by then. What others go on enqueueing for
        this watcher is waited for as well. ImproperOrderError if nobody has started the Batcher.
        """
        limit = left = optional_seconds("timeout", timeout, zero=True)
        began = time.monotonic()
        for batcher in tuple(self._batchers):
            if not batcher.wait_for(self, left):
                return False
            left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
        return True

    def __repr__(self) -> str:
        # Not the repr of the user's object, which may raise where this is only to be logged.
        name = getattr(self.on_batch, "__qualname__", type(self.on_batch).__qualname__)
        return f"Watcher({name})"


def is_async(callback: Callable[..., Any]) -> bool:
    """Whether calling `callback` gives something to be awaited."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004  # an object whose __call__ is async
    )
