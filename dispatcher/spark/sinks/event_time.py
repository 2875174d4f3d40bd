"""EventTimeSink: what `event_time_batches` has built is sent, each batch as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dispatcher._handler import Target
from dispatcher.spark._options import SinkOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._usable_columns import check_values
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._base import Prepared, Sink
from dispatcher.spark.sinks._frames import (
    COST_COLUMN,
    HASH_COLUMN,
    check_names,
    column,
    cost_column,
    hash_column,
    in_order,
    parallelism,
    time_kind,
)
from dispatcher.spark.sinks._run_options import LEASE, RunOptions
from limiters import LimiterConfig
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBJECT, START, END, MESSAGES = "subject", "start", "end", "messages"


class EventTimeSink(Sink):
    """Sends the batches of `event_time_batches`, each as it was built, in order of their start
    for each subject, at the pace of a limit that all executors share:

        batches = event_time_batches(df, subject="device", key="metric", ...)
        batches.writeStream.foreachBatch(EventTimeSink("shop.handlers:send", ...)).start()

    * `handler`: is given the messages of one batch, in order of event time, and a Context if it
      takes a second argument. `context.late`: a batch that starts later was sent already.
    * `cost`: of a message: a number, or a function of it; or, of a batch, an SQL expression or
      a Column.

    All else is as with SubjectSink, what it remembers and does in a replay included; only that
    `rows` in what it counts are batches.
    """

    def __init__(
        self,
        handler: Target,
        *,
        cost: Any = 1,
        rows: str = "row",
        limiter: LimiterConfig | None = None,
        concurrency: int = 16,
        retry: Any = None,
        max_attempts: int | None = None,
        max_operation_time: Seconds = 60.0,
        dead_letters: Any = None,
        query: str | None = None,
        checkpoint: str | None = None,
        redis: str | None = None,
        ledger: bool = True,
        prefix: str = "dispatcher",
        remember: Seconds = timedelta(days=7),
        lease_time: Seconds = LEASE,
        partitions: int | None = None,
        patience: Seconds = 60.0,
        on_micro_batch: Callable[[MicroBatch], object] | None = None,
    ) -> None:
        super().__init__(
            SinkOptions(
                handler=handler,
                rows=rows,
                cost=cost,
                limiter=limiter,
                concurrency=concurrency,
                max_operation_time=seconds("max_operation_time", max_operation_time),
                retry=retry,
                max_attempts=max_attempts,
                dead_letters=dead_letters,
                patience=seconds("patience", patience),
            ),
            RunOptions(
                query=query,
                checkpoint=checkpoint,
                redis=redis,
                ledger=ledger,
                prefix=prefix,
                lease_time=lease_time,
                remember=remember,
                partitions=partitions,
                on_micro_batch=on_micro_batch,
            ),
        )

    def _signature(self) -> str:
        return "event-time batches"

    def _prepare(self, df: DataFrame) -> Prepared:
        missing = {SUBJECT, START, END, MESSAGES} - set(df.columns)
        if missing:
            raise ArgumentError(
                "df",
                UNSHOWN,
                f"have a column {sorted(missing)[0]!r}",
                "an EventTimeSink sends what event_time_batches(df, ...) gives",
            )
        check_names(df, "subject", SUBJECT)
        kind = time_kind(df, START)
        check_values(df.schema)
        identity, added = df.columns, list[str]()
        if self._ledger:
            added.append(HASH_COLUMN)
            df = hash_column(df, identity)
        priced = self._sending.cost_of_row is None
        if priced:
            added.append(COST_COLUMN)
            df = cost_column(df, self._sending.cost)
        subject = column(SUBJECT)
        parts = self._partitions or parallelism(df)
        return Prepared(
            in_order(df, [subject, column(START)], parts, subject, identity),
            Columns(
                SUBJECT,
                START,
                END,
                cost=COST_COLUMN if priced else None,
                hash=HASH_COLUMN if self._ledger else None,
                messages=MESSAGES,
                added=tuple(added),
            ),
            Cut(1, each=True),
            kind,
        )
