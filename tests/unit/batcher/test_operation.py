"""Wrong arguments are refused where they are written, by an error that names them and the
remedy."""

from __future__ import annotations

import sys
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from tenacity import stop_after_attempt, wait_fixed

from dispatcher import (
    Batcher,
    Operation,
    PartialFailure,
    ProvisionedResource,
    Retry,
    Throttled,
    Watcher,
)


def ignore(batch: list[Operation]) -> None:
    pass


WATCHER = Watcher(ignore)


@pytest.mark.parametrize(
    "cost", [-1, -0.5, float("nan"), float("inf"), -float("inf"), "10", None, True, 10**400, []]
)
def test_the_error_names_a_wrong_cost(cost: Any) -> None:
    with pytest.raises(ValueError, match="cost must be"):
        Operation(WATCHER, cost, None)


@pytest.mark.parametrize("cost", [0, 10, 2.86, Decimal("2.86"), Fraction(1, 3)])
def test_any_kind_of_number_can_be_a_cost(cost: Any) -> None:
    assert Operation(WATCHER, cost, None).cost == pytest.approx(float(cost))


def test_a_key_must_be_hashable_and_a_priority_whole() -> None:
    with pytest.raises(ValueError, match=r"key must be hashable, not \[1\]"):
        Operation(WATCHER, 1, None, key=[1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"priority must be a whole number, not 1\.5"):
        Operation(WATCHER, 1, None, priority=1.5)  # type: ignore[arg-type]


def test_an_operation_keeps_its_arguments() -> None:
    operation = Operation(WATCHER, 3, "payload", batchable=True, key="k", priority=2)
    assert (operation.cost, operation.payload, operation.batchable) == (3, "payload", True)
    assert (operation.key, operation.priority, operation.attempt) == ("k", 2, 0)
    assert repr(operation) == "Operation(cost=3, key='k', attempt=0)"
    with pytest.raises(AttributeError):
        operation.cost = 5  # type: ignore[misc]


def test_a_waiting_operation_is_small() -> None:
    # The law allows 160 bytes; the buffer adds its ticket (32) and a place in a deque (8.5).
    operation = Operation(WATCHER, 10, None, batchable=True)
    assert sys.getsizeof(operation) + 16 + 32 + 9 <= 160


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_batch", "not a function"),
        ("on_failure", 5),
        ("max_attempts", 0),
        ("max_attempts", 1.5),
        ("max_batch_size", -1),
        ("max_batch_size", True),
        ("max_operation_time", "1s"),
        ("max_operation_time", 0),
        ("retry", 5),
        ("retry", (wait_fixed(1), stop_after_attempt(2), None)),
    ],
)
def test_the_error_of_a_watcher_names_the_wrong_argument(name: str, value: Any) -> None:
    arguments = {"on_batch": ignore, name: value}
    with pytest.raises(ValueError, match=name):
        Watcher(**arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush_interval", 0),
        ("flush_interval", "100ms"),
        ("flush_interval", timedelta(0)),
        ("flush_interval", True),
        ("capacity_interval", -1),
        ("audit_interval", float("nan")),
        ("max_operation_time", float("inf")),
        ("pause_time", "long"),
        ("max_buffer_size", 0),
        ("max_buffer_size", 10.0),
        ("max_concurrent_batches", 0),
        ("rate_limiter", 20_000),
        ("rate_limiter", ProvisionedResource),
    ],
)
def test_the_error_of_a_batcher_names_the_wrong_argument(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Batcher(**{name: value})


@pytest.mark.parametrize("value", [0, -5, "20k", None, float("nan"), True])
def test_the_error_of_a_limiter_names_a_wrong_capacity(value: Any) -> None:
    with pytest.raises(ValueError, match="max_capacity"):
        ProvisionedResource(value)


def test_the_error_of_a_limiter_names_a_wrong_period() -> None:
    with pytest.raises(ValueError, match="period"):
        ProvisionedResource(1, period="1s")  # type: ignore[arg-type]


def test_arguments_of_outcomes_are_checked() -> None:
    with pytest.raises(ValueError, match="after"):
        Retry(after=-1)
    with pytest.raises(ValueError, match="retry_after"):
        Throttled("soon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="failed"):
        PartialFailure(["1"])
    with pytest.raises(ValueError, match=r"cause must be an exception, such as Reject\('why'\)"):
        PartialFailure([], "negative")  # type: ignore[arg-type]


def test_enqueue_many_refuses_a_single_operation() -> None:
    with pytest.raises(ValueError, match=r"operations must be an iterable.*enqueue\(\) takes"):
        Batcher().enqueue_many(Operation(WATCHER, 1, None))  # type: ignore[arg-type]


def test_durations_may_be_timedeltas() -> None:
    assert Retry(timedelta(milliseconds=250)).after == 0.25
    assert Watcher(ignore, max_operation_time=timedelta(minutes=1)).max_operation_time == 60


def test_the_error_for_a_wrong_event_name_lists_the_right_ones() -> None:
    with pytest.raises(ValueError, match=r"names must .* Batcher, not 'paused'; .*pause"):
        Batcher().add_listener(ignore, "paused")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fn must be callable"):
        Batcher().add_listener("pause")  # type: ignore[arg-type]
