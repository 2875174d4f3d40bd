"""dispatch: all rows of a DataFrame are sent, as a back-fill does."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dispatcher._handler import Target
from dispatcher.spark._options import SinkOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.progress import Counter, Showing
from dispatcher.spark._usable_columns import check_values
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._base import Prepared, Sink
from dispatcher.spark.sinks._frames import COST_COLUMN, cost_column
from dispatcher.spark.sinks._run_options import LEASE, RunOptions
from dispatcher.spark.sinks.subject import SubjectSink
from limiters import LimiterConfig
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, optional_count, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


class UnorderedSink(Sink):
    """Rows as they come. What was sent is not remembered: nobody could say which rows it was."""

    def _signature(self) -> str:
        return "rows in no order"

    def _prepare(self, df: DataFrame) -> Prepared:
        sending = self._sending
        check_values(df.schema)
        priced = sending.cost_of_row is None
        if priced:
            df = cost_column(df, sending.cost)
        if self._partitions is not None:
            df = df.repartition(self._partitions)
        cost = COST_COLUMN if priced else None
        return Prepared(
            df,
            Columns(None, None, cost=cost, added=(COST_COLUMN,) if priced else ()),
            Cut(sending.max_batch_size, sending.max_batch_cost, same_subject=False, in_order=False),
            "number",
        )


def dispatch(
    df: DataFrame,
    handler: Target,
    *,
    subject: str | None = None,
    time: str | None = None,
    identity: Sequence[str] | None = None,
    job: str | None = None,
    cost: Any = 1,
    rows: str = "row",
    max_batch_size: int = 500,
    max_batch_cost: float | None = None,
    limiter: LimiterConfig | None = None,
    concurrency: int = 16,
    retry: Any = None,
    max_attempts: int | None = None,
    max_operation_time: Seconds = 60.0,
    dead_letters: Any = None,
    redis: str | None = None,
    prefix: str = "dispatcher",
    remember: Seconds = timedelta(days=7),
    partitions: int | None = None,
    patience: Seconds = 60.0,
    progress: bool = True,
    total: int | None = None,
) -> MicroBatch:
    """Sends all rows of a DataFrame that is no stream, at the pace of a limit that all executors
    share, and returns what became of them. Arguments are those of SubjectSink, and

    * `subject`, `time`: rows of a subject go in order of time, one batch at a time. Without
      them rows go as they come, and a batch holds whatever comes together.
    * `job`: a name under which it is remembered what was sent, so that the same call goes on
      after a failure, and once it has ended sends nothing again: the DataFrame must have the
      same rows each time. It needs `subject` and `time`, and a Redis: `redis`, or that of the
      limit.
    * `progress`: shows on stderr how many rows were sent, if there is a Redis through which
      tasks can tell. `total` says how many there are, so that it shows how long it will take.
    """
    if (subject is None) != (time is None):
        missing = "subject" if subject is None else "time"
        other = "time" if subject is None else "subject"
        raise ArgumentError(
            missing, UNSHOWN, f"go with {other}", "say both, or none to send in no order"
        )
    if job is not None and subject is None:
        advice = "of rows in no order nobody can say which were sent"
        raise ArgumentError("job", job, "go with subject and time", advice)
    if df.isStreaming:
        raise ArgumentError("df", UNSHOWN, "be one that ends", "a stream takes a SubjectSink")
    optional_count("total", total)
    how: dict[str, Any] = {
        "handler": handler,
        "cost": cost,
        "rows": rows,
        "max_batch_size": max_batch_size,
        "max_batch_cost": max_batch_cost,
        "limiter": limiter,
        "concurrency": concurrency,
        "retry": retry,
        "max_attempts": max_attempts,
        "max_operation_time": seconds("max_operation_time", max_operation_time),
        "dead_letters": dead_letters,
        "patience": seconds("patience", patience),
    }
    where: dict[str, Any] = {
        "query": job or "dispatch",
        "checkpoint": None,
        "redis": redis,
        "ledger": job is not None,
        "prefix": prefix,
        "remember": remember,
        "partitions": partitions,
        "lease_time": LEASE,
        "on_micro_batch": None,
    }
    sink: Sink
    if subject is None or time is None:
        sink = UnorderedSink(SinkOptions(**how), RunOptions(**where))
    else:
        sink = SubjectSink(subject=subject, time=time, identity=identity, **how, **where)
    url = redis or (limiter.url if limiter is not None else None)
    with contextlib.ExitStack() as stack:
        counter = None
        if progress and url is not None:
            counter = Counter.new(url, prefix, job or "dispatch")
            stack.enter_context(Showing(counter, total))
        return sink.send(df, 0, counter)
