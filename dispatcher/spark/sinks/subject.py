"""SubjectSink: a stream's rows, in order of time for each subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dispatcher._handler import Target
from dispatcher.spark._options import SinkOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.gating import GateSource, check_rows, check_source
from dispatcher.spark._usable_columns import check_values
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._base import Prepared, Sink
from dispatcher.spark.sinks._frames import (
    COST_COLUMN,
    HASH_COLUMN,
    LANE_COLUMN,
    check_names,
    column,
    cost_column,
    hash_column,
    identifying,
    in_order,
    parallelism,
    time_kind,
    with_own_column,
)
from dispatcher.spark.sinks._run_options import LEASE, RunOptions
from dispatcher.spark.stateful._holding import LATE_COLUMN
from limiters import LimiterConfig
from limiters._plain_numbers import plain
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SubjectSink(Sink):
    """Sends each subject's rows in order of time, in batches, at the pace of a limit that all
    executors share. It is what foreachBatch takes:

        df.writeStream.foreachBatch(SubjectSink("shop.handlers:send", ...)).start()

    * `handler`: a callable or "module:function", `def` or `async def`, that is given the rows of
      one subject, and a Context if it takes a second argument. Raising means that the batch
      failed; it may raise Retry, Reject and Throttled.
    * `subject`, `time`: the names of the columns that say whose a row is, and when it was.
    * `rows`: how rows are given: "row", "dict", "tuple", or "arrow" for one RecordBatch.
    * `identity`: the names of the columns that, with subject and time, tell a row from all
      others; by default all columns. A replay recognises rows by them, so leave out what
      Spark computes again in each run, such as `uuid()`.
    * `cost`: of a row: a number, an SQL expression, a Column, or a function of the row.
    * `max_batch_size`, `max_batch_cost`, `together_within`: see SubjectBuilder.
    * `order`: "subject" keeps the rows of a subject in order. "global" makes one sequence for
      each value of the column `lane`, or one for all; its batches hold rows of many subjects.
    * `late`: what becomes of rows that are older than what was sent of their subject in an
      earlier micro-batch: "send" sends them first, in batches of their own, with
      `context.late`; "reject" gives them to `dead_letters`; "hold" is for a stream from
      `hold_back`, and sends what is later even than that.
    * `limiter`: the limit, a LimiterConfig. None: as fast as the handler takes them.
    * `concurrency`: how many batches each task has in flight; one of a subject.
    * `retry`, `max_attempts`, `max_operation_time`: see Watcher.
    * `dead_letters`: a callable or "module:function" that takes rows as dicts and a Context, from
      several threads at once, a DeadLetterTable or a DeadLetterTimeline: given what failed for
      good, what is late with "reject", and rows without subject or time. None: then the query
      fails.
    * `gate`: a RedisEntityStore, or a function that makes a RegistrationGate with one: rows of
      subjects that are not registered wait there. Whoever registers the subject is handed them.
    * `query`: the name under which it is remembered what was sent; by default the query's
      name or id. No two sinks may have the same.
    * `checkpoint`: the stream's checkpointLocation. Only Spark Connect needs it, which does not
      tell a sink whose micro-batch it is.
    * `redis`: where that is kept; by default where the limit is. `ledger=False`: nowhere, so
      that a replay sends everything again, and nothing stops a task that is left behind.
    * `remember`: for how long a subject's last time is remembered, at least.
    * `lease_time`: how long a successor waits at most for tasks that were killed.
    * `partitions`: in how many tasks rows are sent; by default as many as there are cores.
    * `patience`: for how long Redis may be away before the micro-batch fails.
    * `on_micro_batch`: called on the driver with a MicroBatch, when one has ended.

    A micro-batch ends when all its batches are acknowledged. Replayed, it sends only those that
    were not; but a batch whose handler has returned and whose acknowledgement was not written
    is sent again, with the same `context.key`.
    """

    def __init__(
        self,
        handler: Target,
        *,
        subject: str,
        time: str,
        identity: Sequence[str] | None = None,
        cost: Any = 1,
        rows: str = "row",
        max_batch_size: int = 500,
        max_batch_cost: float | None = None,
        together_within: float | timedelta = 0,
        order: str = "subject",
        lane: str | None = None,
        late: str = "send",
        limiter: LimiterConfig | None = None,
        concurrency: int = 16,
        retry: Any = None,
        max_attempts: int | None = None,
        max_operation_time: Seconds = 60.0,
        dead_letters: Any = None,
        gate: GateSource | None = None,
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
        for name, value in (
            ("subject", subject),
            ("time", time),
            ("lane", "-" if lane is None else lane),
        ):
            if not (isinstance(value, str) and value):
                raise ArgumentError(name, value, "be the name of a column")
        if order not in ("subject", "global"):
            raise ArgumentError("order", order, "be 'subject' or 'global'")
        if lane is not None and order != "global":
            raise ArgumentError(
                "lane", lane, "go with order='global'", "with 'subject' each has its own order"
            )
        if late not in ("send", "reject", "hold"):
            raise ArgumentError("late", late, "be 'send', 'reject' or 'hold'")
        if late == "reject" and dead_letters is None:
            requirement = "be given with late='reject': late rows go there"
            raise ArgumentError("dead_letters", UNSHOWN, requirement)
        if late == "reject" and not ledger:
            requirement = "be True with late='reject': it knows what was sent before"
            raise ArgumentError("ledger", ledger, requirement)
        if identity is not None and not _are_names(identity):
            raise ArgumentError("identity", identity, "be a list of names of columns")
        check_source(gate, order=order)
        seconds("together_within", together_within, zero=True)
        sending = SinkOptions(
            handler=handler,
            rows=rows,
            cost=cost,
            max_batch_size=max_batch_size,
            max_batch_cost=max_batch_cost,
            limiter=limiter,
            concurrency=concurrency,
            max_operation_time=seconds("max_operation_time", max_operation_time),
            retry=retry,
            max_attempts=max_attempts,
            dead_letters=dead_letters,
            gate=gate,
            patience=seconds("patience", patience),
        )
        super().__init__(
            sending,
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
        self._subject = subject
        self._time = time
        self._identity = identity
        self._order = order
        self._lane = lane
        self._late = late
        self._together_within = together_within

    def _signature(self) -> str:
        facts = [f"subject={self._subject}", f"time={self._time}", f"order={self._order}"]
        if self._identity is not None:
            facts += [f"identity={','.join(self._identity)}"]
        if self._order == "global":  # there a batch is no range of times
            facts += [f"lane={self._lane}", f"max_batch_size={self._sending.max_batch_size}"]
            facts += [f"together_within={self._together_within}"]
            if self._sending.max_batch_cost is not None:
                facts += [f"max_batch_cost={plain(self._sending.max_batch_cost)}"]
                if not callable(self._sending.cost):
                    facts += [f"cost={self._sending.cost}"]
        return ", ".join(facts)

    def _prepare(self, df: DataFrame) -> Prepared:
        check_names(df, "subject", self._subject)
        kind = time_kind(df, self._time)
        check_values(df.schema)
        if self._sending.gate is not None:
            check_rows(df)
        self._check_held_back(df)
        parts = self._partitions or parallelism(df)
        subject, added = column(self._subject), list[str]()
        identity = identifying(df, self._identity, self._subject, self._time)
        if self._ledger:
            added.append(HASH_COLUMN)
            df = hash_column(df, identity)
        sequence: str | None = self._subject
        if self._order == "global":
            sequence = None
            if self._lane is not None:
                check_names(df, "lane", self._lane)
                sequence = LANE_COLUMN
                added.append(LANE_COLUMN)
                df = with_own_column(df, LANE_COLUMN, _lane(subject, column(self._lane)))
        priced = self._sending.cost_of_row is None
        if priced:
            added.append(COST_COLUMN)
            df = cost_column(df, self._sending.cost)
        by = None if sequence is None else column(sequence)
        order = [column(self._time)] if by is None else [by, column(self._time)]
        return Prepared(
            in_order(df, order, parts, by, identity),
            Columns(
                sequence,
                self._time,
                subject=self._subject if self._order == "global" else None,
                cost=COST_COLUMN if priced else None,
                hash=HASH_COLUMN if self._ledger else None,
                added=tuple(added),
            ),
            Cut(
                self._sending.max_batch_size,
                self._sending.max_batch_cost,
                _in_units(self._together_within, kind),
                same_subject=self._order == "subject",
                refuse_late=self._late == "reject",
            ),
            kind,
        )

    def _check_held_back(self, df: DataFrame) -> None:
        if self._late == "hold" and LATE_COLUMN not in df.columns:
            raise ArgumentError(
                "late",
                self._late,
                "be 'send' or 'reject' for a stream whose rows were not held back",
                "hold_back(df, subject=..., time=..., delay=...).writeStream has such rows",
            )


def _are_names(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _lane(subject: Any, lane: Any) -> Any:
    from pyspark.sql import functions

    return functions.when(subject.isNotNull(), lane)


def _in_units(span: float | timedelta, kind: str) -> float:
    """A span of time in the unit of a time column."""
    if kind == "number":
        return span.total_seconds() if isinstance(span, timedelta) else span
    length = span if isinstance(span, timedelta) else timedelta(seconds=span)
    if kind == "date":
        return length / timedelta(days=1)
    return length / timedelta(microseconds=1)
