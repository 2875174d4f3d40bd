"""When a failed batch is retried, and when it is given up. Waits and stops are tenacity's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from tenacity import Future, RetryCallState, Retrying
from tenacity.stop import stop_never

from limiters._support.validation import ArgumentError

Wait = Callable[[RetryCallState], float]
Stop = Callable[[RetryCallState], bool]

_RETRYING = Retrying()


def call_state(attempt: int, elapsed: float, error: BaseException | None = None) -> RetryCallState:
    """Return the state that tenacity's strategies read: the attempt, the time since the first, the
    error."""
    state = RetryCallState(_RETRYING, fn=None, args=(), kwargs={})
    state.attempt_number = attempt
    state.outcome_timestamp = state.start_time + elapsed
    state.outcome = Future(attempt)
    if error is None:
        state.outcome.set_result(None)
    else:
        state.outcome.set_exception(error)
    return state


def is_strategy(value: object) -> TypeGuard[Callable[..., Any]]:
    """Whether `value` is a strategy: `wait_fixed(1)` is one, `wait_fixed` is not."""
    return callable(value) and not isinstance(value, type)


class RetryPolicy:
    """`max_attempts` bounds every kind of retry; `wait` and `stop` control the automatic one."""

    def __init__(self, wait: Wait | None, stop: Stop, max_attempts: int | None) -> None:
        self.wait = wait
        self.stop = stop
        self.max_attempts = max_attempts

    @classmethod
    def of(cls, retry: object, max_attempts: int | None) -> RetryPolicy:
        """Return the policy for a Watcher's arguments."""
        if retry is None:
            return cls(None, stop_never, max_attempts)
        wait, stop = retry if isinstance(retry, tuple) and len(retry) == 2 else (retry, stop_never)
        if not (is_strategy(wait) and is_strategy(stop)):
            raise ArgumentError(
                "retry",
                retry,
                "be a tenacity wait strategy, or a pair of a wait and a stop strategy",
                "such as wait_fixed(1), or (wait_fixed(1), stop_after_delay(60))",
            )
        return cls(wait, stop, max_attempts)

    def may_repeat(self, attempt: int) -> bool:
        """Whether another attempt is allowed after this many."""
        return self.max_attempts is None or attempt < self.max_attempts

    def delay(self, attempt: int, elapsed: float, error: BaseException) -> float | None:
        """Return the seconds to wait after `attempt` failed; None if it is given up."""
        if self.wait is None or not self.may_repeat(attempt):
            return None
        state = call_state(attempt, elapsed, error)
        if self.stop(state):
            return None
        return max(0.0, float(self.wait(state)))
