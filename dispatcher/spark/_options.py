"""Options of sending that all sinks, `dispatch` and the format "dispatcher" share.

A field here is a keyword of each of them, and a line of its documentation; if it can be written as
a text it is an option of the format, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dispatcher._handler import Target, check, load
from dispatcher._retry import RetryPolicy
from dispatcher.spark._prices import Prices, check_cost, checked_bound, without_those_of_spark
from dispatcher.spark._rows.formats import FORMATS
from dispatcher.spark.dead_letters import DeadLetterTable, DeadLetterTimeline, checked_target
from limiters import LimiterConfig
from limiters._costs import checked_cost
from limiters._support.options import CheckedOptions, about, values_of
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    Seconds,
    count,
    in_seconds,
    instance_of,
    one_of,
    seconds,
)

MOST_AT_ONCE = 1_000
"""The largest number of batches that a task may have in flight."""


def travels(name: str, value: object) -> None:
    """Refuse a value that cannot be sent to executors, when the sink is made rather than later."""
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


def _handler(name: str, value: Any) -> None:
    check(value)
    if callable(value):
        load(value)  # it refuses a function that takes other arguments
    travels(name, value)


def _dead_letters(name: str, value: Any) -> None:
    checked_target(value)
    travels(name, value)


def _cost(name: str, value: Any) -> None:
    check_cost(name, value, travels)


def _cost_of_batch(name: str, value: Any) -> None:
    checked_cost(name, value)


def _bound(name: str, value: Any) -> None:
    checked_bound(name, value)


def _retry(name: str, value: object) -> None:
    RetryPolicy.of(value, None)
    travels(name, value)


def _concurrency(name: str, value: object) -> None:
    if count(name, value) > MOST_AT_ONCE:
        raise ArgumentError(
            name,
            value,
            f"be at most {MOST_AT_ONCE:,}",
            "it is how many batches each task has in flight, and as many threads",
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeliveryOptions(CheckedOptions):
    """Options of how batches are sent. Plain values, which can be sent to executors."""

    handler: Target = field(
        kw_only=False,
        metadata=about(
            'a callable or "module:function", `def` or `async def`, that is given the rows of a '
            "batch, and a Context if it takes a second argument. Raising means that the batch "
            "failed; it may raise Retry, Reject, PartialFailure and Throttled",
            _handler,
        ),
    )
    cost: Any = field(
        default=1,
        metadata=about(
            "of a row: a number, an SQL expression, a Column, or a function of the row. Where the "
            "limit has several dimensions, a mapping of dimensions to such costs",
            _cost,
        ),
    )
    batch_cost: float | Mapping[str, float] = field(
        default=0,
        metadata=about(
            "what a batch costs in addition to its rows, however many it holds: a number, or a "
            "mapping such as {'requests': 1, 'calls': 1}. Each attempt pays it",
            _cost_of_batch,
        ),
    )
    rows: str = field(
        default="row",
        metadata=about(
            'how rows are given to the handler: "row", "dict", "tuple", or "arrow" for one '
            "RecordBatch",
            one_of(*FORMATS),
        ),
    )
    limiter: LimiterConfig | None = field(
        default=None,
        metadata=about(
            "the limit. None: as fast as the handler takes the rows", instance_of(LimiterConfig)
        ),
    )
    concurrency: int = field(
        default=16,
        metadata=about(
            "how many batches each task has in flight, no two with one subject", _concurrency
        ),
    )
    retry: Any = field(
        default=None,
        metadata=about(
            "when a failed batch is sent again: a tenacity wait strategy, or a pair of a wait and "
            "a stop strategy. None: it is not",
            _retry,
        ),
    )
    max_attempts: int | None = field(
        default=None, metadata=about("how often a batch is sent at most", count)
    )
    max_operation_time: Seconds = field(
        default=60.0,
        metadata=about(
            "how long the handler may take for a batch before the micro-batch fails",
            seconds,
            unit="s",
        ),
    )
    dead_letters: Target | DeadLetterTable | DeadLetterTimeline | None = field(
        default=None,
        metadata=about(
            'where rows go that cannot be sent: a callable or "module:function" that takes rows '
            "as dicts and a Context, on several threads, a DeadLetterTable or a "
            "DeadLetterTimeline. None: then the query fails",
            _dead_letters,
        ),
    )
    patience: Seconds = field(
        default=60.0,
        metadata=about(
            "how long Redis may be away before the micro-batch fails", seconds, unit="s"
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_attempts is not None and self.retry is None:
            raise ArgumentError(
                "max_attempts",
                UNSHOWN,
                "go with retry, such as retry=tenacity.wait_exponential(max=10)",
                "without it a batch that fails is not tried again",
            )
        prices = prices_of(self)  # it refuses what the limit could never grant
        prices.check_calls(in_seconds(self.max_operation_time))


def for_tasks(options: DeliveryOptions) -> DeliveryOptions:
    """Return the DeliveryOptions among `options`, without Columns: those exist on the driver only,
    and rows carry their values."""
    values = values_of(DeliveryOptions, options)
    values["cost"] = without_those_of_spark(options.cost)
    made = object.__new__(
        DeliveryOptions
    )  # checked when the sink was made, not in each micro-batch
    vars(made).update(values)
    return made


def prices_of(options: DeliveryOptions) -> Prices:
    """Return the costs of rows and batches by these options. ArgumentError if the limit has other
    dimensions."""
    most = options.max_batch_cost if isinstance(options, SizeOptions) else None
    return Prices.of(options.cost, options.batch_cost, most, options.limiter)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SizeOptions(DeliveryOptions):
    """DeliveryOptions, with the largest size of a batch, where rows are not built into batches
    before."""

    max_batch_size: int = field(default=500, metadata=about("rows in a batch at most", count))
    max_batch_cost: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about(
            "what a batch costs at most, `batch_cost` included: a number, or a mapping of "
            "dimensions to numbers",
            _bound,
        ),
    )
