"""A Watcher: who is told, and on what terms."""

from __future__ import annotations

import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dispatcher._retry import RetryPolicy, Stop, Wait
from dispatcher.learned import Learned
from dispatcher.operation import Operation
from limiters._costs import AnyCost, checked_cost
from limiters._support.callables import check_effective, is_async, name_of
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    Seconds,
    flag,
    optional_count,
    optional_seconds,
)

OnBatch = Callable[[list[Operation]], Awaitable[object] | object]
OnFailure = Callable[[list[Operation], BaseException], Awaitable[object] | object]


class Waitable(Protocol):
    """The part of a Batcher that its watchers wait for."""

    def wait_for(self, watcher: Watcher, timeout: float | None) -> bool:
        """Waits until nothing of `watcher` is left; False if that takes too long."""
        ...


@dataclass(frozen=True, slots=True)
class Callback:
    """A function of the user's, and what was found out about it when it was handed in."""

    function: Callable[..., Any]
    on_loop: bool
    """Whether it is called on the event loop, rather than on a thread."""

    @classmethod
    def of(cls, parameter: str, function: Callable[..., Any]) -> Callback:
        """Refuses what cannot be called, or does nothing when it is."""
        check_effective(parameter, function)
        return cls(function, is_async(function))


@dataclass(frozen=True, slots=True)
class WatcherTerms:
    """What a Batcher goes by: checked once, and the same for as long as the Watcher lives."""

    on_batch: Callback
    on_failure: Callback | None
    max_batch_size: int | None
    max_operation_time: float | None
    policy: RetryPolicy
    retry_abandoned: bool
    batch_cost: AnyCost | Learned = 0

    @property
    def learned_batch_cost(self) -> Learned | None:
        """What learns the cost of a batch, if it is learned."""
        return self.batch_cost if isinstance(self.batch_cost, Learned) else None

    @property
    def present_batch_cost(self) -> AnyCost:
        """What the next batch costs besides its operations."""
        learned = self.learned_batch_cost
        return self.batch_cost if learned is None else learned.estimate()

    @property
    def name(self) -> str:
        """What messages call the Watcher: a `repr` of the user's may raise."""
        return f"Watcher({name_of(self.on_batch.function)})"


def _checked_batch_cost(value: object) -> AnyCost | Learned:
    if not isinstance(value, Learned):
        return checked_cost("batch_cost", value)
    if value._by is not None:
        raise ArgumentError(
            "batch_cost",
            value,
            "be Learned without `by`",
            "a batch has no payload to tell kinds by",
        )
    return value


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
    * `batch_cost`: what a batch costs besides its operations, however many it holds: a number, or
      a mapping such as `{"requests": 1}`. Each attempt pays it. Or `Learned(...)` without `by`: it
      learns from batches that were settled as a whole.
    * `retry_abandoned`: whether abandoned batches are retried like failed ones, and so also
      handed to `on_failure` once they are given up.

    None of these changes later. A generator function is refused. Thread-safe.

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
        batch_cost: float | Mapping[str, float] | Learned = 0,
    ) -> None:
        self._terms = WatcherTerms(
            on_batch=Callback.of("on_batch", on_batch),
            on_failure=None if on_failure is None else Callback.of("on_failure", on_failure),
            max_batch_size=optional_count("max_batch_size", max_batch_size),
            max_operation_time=optional_seconds("max_operation_time", max_operation_time),
            policy=RetryPolicy.of(retry, optional_count("max_attempts", max_attempts)),
            retry_abandoned=flag("retry_abandoned", retry_abandoned),
            batch_cost=_checked_batch_cost(batch_cost),
        )
        if retry_abandoned and retry is None and on_failure is None:
            raise ArgumentError(
                "retry_abandoned",
                UNSHOWN,
                "go with a retry or an on_failure",
                "retry=tenacity.wait_fixed(1), for example, tries what is abandoned again after a "
                "second, and on_failure takes it",
            )
        # By identity, since a class of the user's may define `==`. Other threads may add to it
        # while one waits: `valuerefs` copies it by one step, which iterating does not.
        self._batchers: weakref.WeakValueDictionary[int, Waitable] = weakref.WeakValueDictionary()
        self._home: object = None
        """Whose door its operations may pass without a closer look: see Admission."""

    @property
    def on_batch(self) -> OnBatch:
        """What takes its batches."""
        return self._terms.on_batch.function

    @property
    def on_failure(self) -> OnFailure | None:
        """What takes the operations that are given up."""
        return None if self._terms.on_failure is None else self._terms.on_failure.function

    @property
    def max_attempts(self) -> int | None:
        """How often an operation may be raised in all."""
        return self._terms.policy.max_attempts

    @property
    def max_batch_size(self) -> int | None:
        """How many operations a batch may hold."""
        return self._terms.max_batch_size

    @property
    def max_operation_time(self) -> float | None:
        """The seconds that the callback may take."""
        return self._terms.max_operation_time

    @property
    def batch_cost(self) -> AnyCost:
        """What a batch costs besides its operations; the present estimate, if it is learned."""
        return self._terms.present_batch_cost

    @property
    def retry_abandoned(self) -> bool:
        """Whether abandoned batches are retried like failed ones."""
        return self._terms.retry_abandoned

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Waits until none of its operations is left; False if that takes too long.

        Failed operations have been handed over by then. What others go on enqueueing for
        this watcher is waited for as well. ImproperOrderError if nobody has started the Batcher.
        """
        limit = left = optional_seconds("timeout", timeout, zero=True)
        began = time.monotonic()
        for reference in self._batchers.valuerefs():
            batcher = reference()
            if batcher is not None and not batcher.wait_for(self, left):
                return False
            left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
        return True

    def __repr__(self) -> str:
        return self._terms.name if hasattr(self, "_terms") else "Watcher(never initialized)"
