"""EventTimeSink: sends the batches of `event_time_batches`, each as it was built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import prices_of
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._usable_columns import check_values
from dispatcher.spark.sinks._base import Prepared, Sink
from dispatcher.spark.sinks._frames import (
    HASH_COLUMN,
    check_names,
    column,
    hash_column,
    in_order,
    parallelism,
    time_kind,
    with_costs,
)
from limiters._support.options import documented
from limiters._support.validation import UNSHOWN, ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBJECT, START, END, MESSAGES = "subject", "start", "end", "messages"


@documented
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EventTimeSink(Sink):
    """Sends the batches of `event_time_batches`, each as it was built, in order of their start
    for each subject, at the pace of a limit that all executors share::

        batches = event_time_batches(df, subject="device", key="metric", ...)
        batches.writeStream.foreachBatch(EventTimeSink("shop.handlers:send", ...)).start()

    The handler is given the messages of one batch, in order of event time. If `context.late`, a
    batch that starts later was sent already. A function for `cost` is given a message; an SQL
    expression or a Column is the cost of a batch.

    Everything else is as with SubjectSink, including the ledger and replays, except that `rows` in
    its counts are batches. All options but the handler are keywords:
    """

    def _signature(self) -> str:
        return "event-time batches"

    def _prepare(self, df: DataFrame, division: Division | None) -> Prepared:
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
        if self.ledger:
            added.append(HASH_COLUMN)
            df = hash_column(df, identity)
        df, costs, of_costs = with_costs(df, prices_of(self).of_spark)
        added += of_costs
        subject = column(SUBJECT)
        parts = self.partitions or parallelism(df)
        return Prepared(
            in_order(df, [subject, column(START)], parts, subject, identity),
            Columns(
                SUBJECT,
                START,
                END,
                costs=costs,
                hash=HASH_COLUMN if self.ledger else None,
                messages=MESSAGES,
                added=tuple(added),
            ),
            Cut(1, each=True),
            kind,
        )
