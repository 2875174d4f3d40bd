"""A Watcher: a user's function that receives batches, with its settings."""

from __future__ import annotations

import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
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
        """Wait until no operation of `watcher` is left; False if that takes longer than
        `timeout`."""
        ...


@dataclass(frozen=True, slots=True)
class Callback:
    """A user's function, checked once."""

    function: Callable[..., Any]
    on_loop: bool
    """Whether it is called on the event loop, rather than on a thread."""

    @classmethod
    def of(cls, parameter: str, function: Callable[..., Any]) -> Callback:
        """Return the callback. ArgumentError if `function` cannot be called, or would have no
        effect."""
        check_effective(parameter, function)
        return cls(function, is_async(function))


@dataclass(frozen=True, slots=True)
class WatcherTerms:
    """The settings of a Watcher that a Batcher uses, checked once. They never change."""

    on_batch: Callback
    on_failure: Callback | None
    max_batch_size: int | None
    max_operation_time: float | None
    policy: RetryPolicy
    retry_abandoned: bool
    batch_cost: AnyCost | Learned = 0
    describe: Callable[[list[Operation]], str] | None = None
    """Describes a batch in log lines, for a Watcher whose users never see its operations. It must
    not raise."""

    @property
    def learned_batch_cost(self) -> Learned | None:
        """The Learned cost of a batch, if it is learned."""
        return self.batch_cost if isinstance(self.batch_cost, Learned) else None

    @property
    def present_batch_cost(self) -> AnyCost:
        """The cost of the next batch in addition to its operations."""
        learned = self.learned_batch_cost
        return self.batch_cost if learned is None else learned.estimate()

    @property
    def name(self) -> str:
        """The name of the Watcher in messages. It does not use a user's `repr`, which may raise."""
        return f"Watcher({name_of(self.on_batch.function)})"

    def described(self, operations: list[Operation]) -> str:
        """Return a description of a batch for messages."""
        return f"a batch of {self.name}" if self.describe is None else self.describe(operations)

    def fate_of(self, operations: int, again: int, failed: int) -> str:
        """Return what happens to a failed batch, for messages."""
        if self.describe is None:
            return f"operations: {operations}, to be tried again: {again}, given up: {failed}"
        return "it is given up" if failed else "it is tried again"


def _checked_batch_cost(value: object) -> AnyCost | Learned:
    if not isinstance(value, Learned):
        return checked_cost("batch_cost", value)
    if value._by is not None:
        raise ArgumentError(
            "batch_cost",
            value,
            "be Learned without `by`",
            "a batch has no payload by which kinds could differ",
        )
    return value


class Watcher:
    """Receives the batches of the operations made for it. A Watcher takes little time to make.

    * `on_batch`: takes `list[Operation]`. A plain function runs on a thread, an `async def` on the
      Batcher's event loop; many run at the same time. Raising means that the batch failed.
    * `max_attempts`: how often an operation may be raised in all.
    * `max_batch_size`: how many operations a batch may hold. None: as many as wait.
    * `max_operation_time`: how long the callback may take before its batch is abandoned; None: the
      Batcher's max_operation_time.
    * `retry`: a tenacity wait strategy, or a pair `(wait, stop)`: a failed batch is raised
      again by itself. Without it a failed batch is given up.
    * `on_failure`: `on_failure(operations, error)` receives operations that are given up.
    * `batch_cost`: the cost of a batch in addition to its operations, however many it holds: a
      number, or a mapping such as `{"requests": 1}`. Each attempt pays it. Or `Learned(...)`
      without `by`: it learns from batches that were settled as a whole.
    * `retry_abandoned`: whether abandoned batches are retried like failed ones, and so also
      passed to `on_failure` once they are given up.

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
                "retry=tenacity.wait_fixed(1), for example, tries abandoned batches again after a "
                "second, and on_failure receives them",
            )
        # The keys are identities, since a user's class may define `==`. Other threads may add items
        # while one waits: `valuerefs` copies all in one step, which iterating does not.
        self._batchers: weakref.WeakValueDictionary[int, Waitable] = weakref.WeakValueDictionary()
        self._home: object = None
        """The engine thread whose Batcher has checked this Watcher: see Admission."""

    @property
    def on_batch(self) -> OnBatch:
        """The function that receives batches."""
        return self._terms.on_batch.function

    @property
    def on_failure(self) -> OnFailure | None:
        """The function that receives operations that are given up."""
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
        """The cost of a batch in addition to its operations; the present estimate, if it is
        learned."""
        return self._terms.present_batch_cost

    @property
    def retry_abandoned(self) -> bool:
        """Whether abandoned batches are retried like failed ones."""
        return self._terms.retry_abandoned

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until none of its operations is left; False if that takes longer than `timeout`.

        Operations that are given up have been passed to `on_failure` by then. Operations that other
        threads enqueue meanwhile are waited for as well. ImproperOrderError if the Batcher was not
        started.
        """
        limit = left = optional_seconds("timeout", timeout, zero=True)
        began = time.monotonic()
        for reference in self._batchers.valuerefs():
            batcher = reference()
            if batcher is not None and not batcher.wait_for(self, left):
                return False
            left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
        return True

    def _described_by(self, describe: Callable[[list[Operation]], str]) -> Watcher:
        """Have `describe` name its batches in log lines."""
        self._terms = replace(self._terms, describe=describe)
        return self

    def __repr__(self) -> str:
        return self._terms.name if hasattr(self, "_terms") else "Watcher(never initialized)"
