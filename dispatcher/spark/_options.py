"""How batches are sent: what every sink is told. Plain values, that travel to the executors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dispatcher._handler import Target, check, load
from dispatcher._retry import RetryPolicy
from dispatcher.spark._rows.formats import FORMATS
from dispatcher.spark.dead_letters import checked_target
from limiters import LimiterConfig
from limiters._support.callables import check_plain
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    amount,
    count,
    optional_count,
    seconds,
)

MOST_AT_ONCE = 1_000
"""How many batches a task may have in flight."""


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """See SubjectSink for what each of them means."""

    handler: Target
    rows: str = "row"
    cost: Any = 1
    max_batch_size: int = 500
    max_batch_cost: float | None = None
    limiter: LimiterConfig | None = None
    concurrency: int = 16
    max_operation_time: float = 60.0
    retry: Any = None
    max_attempts: int | None = None
    dead_letters: Any = None
    gate: Any = None
    patience: float = 60.0

    def __post_init__(self) -> None:
        check(self.handler)
        if callable(self.handler):
            load(self.handler)  # it refuses a function that takes other arguments
        checked_target(self.dead_letters)
        if not isinstance(self.rows, str) or self.rows not in FORMATS:
            raise ArgumentError("rows", self.rows, f"be one of {', '.join(FORMATS)}")
        count("max_batch_size", self.max_batch_size)
        if count("concurrency", self.concurrency) > MOST_AT_ONCE:
            raise ArgumentError(
                "concurrency",
                self.concurrency,
                f"be at most {MOST_AT_ONCE:,}",
                "it is how many batches each task has in flight, and as many threads",
            )
        seconds("max_operation_time", self.max_operation_time)
        seconds("patience", self.patience)
        RetryPolicy.of(self.retry, optional_count("max_attempts", self.max_attempts))
        if self.max_attempts is not None and self.retry is None:
            raise ArgumentError(
                "max_attempts",
                UNSHOWN,
                "go with retry, such as retry=tenacity.wait_exponential(max=10)",
                "without it a batch that fails is not tried again",
            )
        if self.max_batch_cost is not None:
            amount("max_batch_cost", self.max_batch_cost)
        if isinstance(self.cost, (int, float)):
            amount("cost", self.cost, zero=True)
        elif not _says_a_cost(self.cost):
            raise ArgumentError(
                "cost", self.cost, "be a number, an SQL expression, a Column or a function of a row"
            )
        if self.limiter is not None and not isinstance(self.limiter, LimiterConfig):
            raise ArgumentError("limiter", self.limiter, "be a LimiterConfig")
        _travels("handler", self.handler)
        _travels("dead_letters", self.dead_letters)
        _travels("retry", self.retry)
        _travels("gate", self.gate)
        if callable(self.cost):
            check_plain("cost", self.cost)
            _travels("cost", self.cost)

    def for_tasks(self) -> SinkOptions:
        """The same without what only a driver can have: a Column, of which rows have the value."""
        return self if self.cost_of_row is not None else replace(self, cost=0)

    @property
    def cost_of_row(self) -> Any:
        """What is asked on the executors: a function, or a number."""
        if callable(self.cost):
            return self.cost
        return float(self.cost) if isinstance(self.cost, (int, float)) else None


def _says_a_cost(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value)
    return callable(value) or hasattr(value, "cast")  # a Column, of Spark or of Connect


def _travels(name: str, value: Any) -> None:
    """Refuses what cannot be sent to executors: while the query starts, not in its middle."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise ArgumentError(
            name,
            UNSHOWN,
            f"be something that can be sent to the executors ({error})",
            "it holds on to something like a connection or a lock: make that where it is used, or "
            "name the function, 'module:function'",
        ) from error
