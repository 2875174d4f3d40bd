"""One rule decides what happens to failed work in a Batcher, a Worker and Spark."""

from __future__ import annotations

import pytest
from tenacity import stop_after_delay, wait_exponential, wait_fixed

from dispatcher import PartialFailure, Reject, Retry, Throttled
from dispatcher._failure_rule import FailureRule, partial
from dispatcher._retry import RetryPolicy
from limiters import ArgumentError

THRICE = RetryPolicy.of(wait_fixed(2), 3)
NEVER = RetryPolicy.of(None, None)


@pytest.mark.parametrize(
    ("error", "attempt", "policy", "delay"),
    [
        (OSError(), 1, THRICE, 2.0),
        (OSError(), 3, THRICE, None),
        (OSError(), 1, NEVER, None),
        (Reject("no"), 1, THRICE, None),
        (Retry(after=7), 1, THRICE, 7.0),
        (Retry(after=7), 3, THRICE, None),
        (Retry(after=7), 99, NEVER, 7.0),
        (Throttled(retry_after=7), 1, THRICE, 0.0),
        (Throttled(), 3, THRICE, None),
        (Throttled(), 99, NEVER, 0.0),
    ],
)
def test_failed_work_is_tried_again_after_a_delay_or_given_up(
    error: BaseException, attempt: int, policy: RetryPolicy, delay: float | None
) -> None:
    rule = FailureRule(error, policy)
    assert rule.delay(attempt) == delay
    assert rule.expected is not isinstance(error, OSError)
    assert rule.throttled is isinstance(error, Throttled)


def test_a_pause_is_as_long_as_the_datastore_asks() -> None:
    assert FailureRule(Throttled(retry_after=7), NEVER).pause == 7
    assert FailureRule(Throttled(), NEVER).pause is None


def test_time_since_the_first_attempt_counts() -> None:
    policy = RetryPolicy.of((wait_fixed(1), stop_after_delay(60)), None)
    assert FailureRule(OSError(), policy).delay(1, elapsed=59) == 1
    assert FailureRule(OSError(), policy).delay(1, elapsed=60) is None


def test_operations_of_one_attempt_have_one_delay_and_the_strategy_is_called_once() -> None:
    asked = []

    def wait(state: object) -> float:
        asked.append(state)
        return float(len(asked))

    rule = FailureRule(OSError(), RetryPolicy.of(wait, None))
    assert [rule.delay(attempt) for attempt in (1, 1, 2, 1)] == [1, 1, 2, 1]
    assert len(asked) == 2


def test_a_delay_grows_with_the_attempts() -> None:
    rule = FailureRule(OSError(), RetryPolicy.of(wait_exponential(), None))
    assert [rule.delay(attempt) for attempt in (1, 2, 3)] == [1, 2, 4]


def test_a_delay_that_is_not_a_time_is_an_error() -> None:
    error = Retry()
    error.after = "soon"  # type: ignore[assignment]
    with pytest.raises(ArgumentError, match=r"Retry\.after"):
        FailureRule(error, NEVER)


def test_a_partial_failure_names_some_of_the_batch_and_a_cause() -> None:
    batch = [object() for _ in range(3)]
    cause = Reject("no")
    assert partial(batch, PartialFailure(batch[:1], cause), "rows") == ({id(batch[0])}, cause)
    error = PartialFailure(batch[:1])
    assert partial(batch, error, "rows") == ({id(batch[0])}, error)


def test_a_partial_failure_with_others_than_the_batch_fails_the_whole_batch() -> None:
    batch: list[object] = [object()]
    error = PartialFailure([object(), object()])
    failed, wrong = partial(batch, error, "operations")
    assert failed == {id(batch[0])}
    assert isinstance(wrong, ValueError)
    assert str(wrong).startswith("PartialFailure named 2 operations that are not of this batch")
    assert wrong.__cause__ is error
