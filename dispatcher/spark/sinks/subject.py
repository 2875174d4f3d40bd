"""SubjectSink: sends a stream's rows in order of time for each subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import SizeOptions, prices_of, travels
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.gating import GateSource, check_rows, check_source
from dispatcher.spark._usable_columns import check_values, column_name
from dispatcher.spark.sinks._base import Prepared, Sink
from dispatcher.spark.sinks._frames import (
    HASH_COLUMN,
    LANE_COLUMN,
    check_names,
    column,
    column_names,
    hash_column,
    identifying,
    in_order,
    parallelism,
    time_kind,
    with_costs,
    with_own_column,
)
from dispatcher.spark.stateful._holding import LATE_COLUMN
from limiters._plain_numbers import plain
from limiters._support.options import CheckedOptions, about, documented
from limiters._support.validation import UNSHOWN, ArgumentError, flag, one_of, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _gate(name: str, value: object) -> None:
    check_source(value)
    travels(name, value)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OrderOptions(CheckedOptions):
    """Options of the order in which rows are sent, and of where they are cut."""

    subject: str = field(
        metadata=about("the name of the column that says whose a row is", column_name)
    )
    time: str = field(metadata=about("the name of the column that says when it was", column_name))
    identity: Sequence[str] | None = field(
        default=None,
        metadata=about(
            "the names of the columns that, with subject and time, tell a row from all others; by "
            "default all columns. A replay recognises rows by them, so leave out what Spark "
            "computes again in each run, such as `uuid()`",
            column_names,
        ),
    )
    order: str = field(
        default="subject",
        metadata=about(
            '"subject" keeps the rows of a subject in order. "global" makes one sequence for each '
            "value of the column `lane`, or one for all; its batches hold rows of many subjects",
            one_of("subject", "global"),
        ),
    )
    pack: bool = field(
        default=True,
        metadata=about(
            "whether a batch holds rows of several subjects, each subject's together, until it is "
            'full. False: of one. With order="subject"',
            flag,
        ),
    )
    lane: str | None = field(
        default=None,
        metadata=about('the name of the column of lanes, with order="global"', column_name),
    )
    together_within: float | timedelta = field(
        default=0,
        metadata=about(
            "times up to this much later than the first of a timestamp count as the same, as in "
            "SubjectBuilder; in the unit of the times, for timestamps in seconds",
            partial(seconds, zero=True),
        ),
    )
    late: str = field(
        default="send",
        metadata=about(
            "what becomes of rows that are older than what was sent of their subject in an earlier "
            'micro-batch: "send" sends them first, in batches of their own, with `context.late`; '
            '"reject" gives them to `dead_letters`; "hold" is for a stream from `hold_back`, and '
            "sends what is later even than that",
            one_of("send", "reject", "hold"),
        ),
    )
    gate: GateSource | None = field(
        default=None,
        metadata=about(
            "a RedisEntityStore, or a function that makes a RegistrationGate with one: rows of "
            "subjects that are not registered wait there. The process that registers the subject "
            "receives them",
            _gate,
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lane is not None and self.order != "global":
            raise ArgumentError(
                "lane",
                self.lane,
                "go with order='global'",
                "with 'subject' each has its own order",
            )
        if not self.pack and self.order != "subject":
            raise ArgumentError(
                "pack",
                self.pack,
                "go with order='subject'",
                "with 'global' a batch holds rows of any subject",
            )
        if self.gate is not None and self.order != "subject":
            raise ArgumentError(
                "gate",
                UNSHOWN,
                "go with order='subject'",
                "each batch of one subject passes or waits",
            )


@documented
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SubjectSink(Sink, SizeOptions, OrderOptions):
    """Sends each subject's rows in order of time, in batches of many subjects, at the pace of a
    limit that all executors share. Pass it to foreachBatch::

        df.writeStream.foreachBatch(SubjectSink("shop.handlers:send", ...)).start()

    A micro-batch ends when all its batches are acknowledged. A replay sends only those that are not
    acknowledged; but a batch whose handler has returned and whose acknowledgement was not stored is
    sent again, with the same `context.key`.

    All options but the handler are keywords:
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.late == "reject" and self.dead_letters is None:
            requirement = "be given with late='reject': late rows go there"
            raise ArgumentError("dead_letters", UNSHOWN, requirement)
        if self.late == "reject" and not self.ledger:
            requirement = "be True with late='reject': it stores what was sent before"
            raise ArgumentError("ledger", self.ledger, requirement)

    def _signature(self) -> str:
        facts = [f"subject={self.subject}", f"time={self.time}", f"order={self.order}"]
        if self.identity is not None:
            facts += [f"identity={','.join(self.identity)}"]
        if self.order == "global":  # there a batch is no range of times
            facts += [f"lane={self.lane}", f"max_batch_size={self.max_batch_size}"]
            facts += [f"together_within={self.together_within}"]
            if self.max_batch_cost is not None:
                facts += [f"max_batch_cost={_written(self.max_batch_cost)}"]
                if not callable(self.cost):
                    facts += [f"cost={_written(self.cost)}"]
                if self.batch_cost:
                    facts += [f"batch_cost={_written(self.batch_cost)}"]
        return ", ".join(facts)

    def _division(self, df: DataFrame) -> Division | None:
        if not self.pack or (self.order == "global" and self.lane is None):
            return None
        # A batch that costs more than the limit could never be sent, although each subject could.
        most = prices_of(self).most
        return Division(self.partitions or parallelism(df), self.max_batch_size, most)

    def _prepare(self, df: DataFrame, division: Division | None) -> Prepared:
        prices = prices_of(self)
        check_names(df, "subject", self.subject)
        kind = time_kind(df, self.time)
        check_values(df.schema)
        if self.gate is not None:
            check_rows(df)
        self._check_held_back(df)
        if division is None or self.order == "global":
            # The signature has all options that decide where a lane is cut, and it has no limit.
            most_cost = prices.chosen if self.order == "global" else prices.most
            parts, most_rows = self.partitions or parallelism(df), self.max_batch_size
        else:
            parts, most_rows, most_cost = division.parts, division.most_rows, division.most_cost
        subject, added = column(self.subject), list[str]()
        identity = identifying(df, self.identity, self.subject, self.time)
        if self.ledger:
            added.append(HASH_COLUMN)
            df = hash_column(df, identity)
        sequence: str | None = self.subject
        if self.order == "global":
            sequence = None
            if self.lane is not None:
                check_names(df, "lane", self.lane)
                sequence = LANE_COLUMN
                added.append(LANE_COLUMN)
                df = with_own_column(df, LANE_COLUMN, _lane(subject, column(self.lane)))
        df, costs, of_costs = with_costs(df, prices.of_spark)
        added += of_costs
        by = None if sequence is None else column(sequence)
        order = [column(self.time)] if by is None else [by, column(self.time)]
        return Prepared(
            in_order(df, order, parts, by, identity),
            Columns(
                sequence,
                self.time,
                subject=self.subject if self.order == "global" else None,
                costs=costs,
                hash=HASH_COLUMN if self.ledger else None,
                added=tuple(added),
            ),
            Cut(
                most_rows,
                most_cost,
                _in_units(self.together_within, kind),
                same_subject=self.order == "subject",
                refuse_late=self.late == "reject",
                late_by_subject=self.lane is not None and division is not None,
            ),
            kind,
            self.gate,
            division if self.order == "subject" else None,
        )

    def _check_held_back(self, df: DataFrame) -> None:
        if self.late == "hold" and LATE_COLUMN not in df.columns:
            raise ArgumentError(
                "late",
                self.late,
                "be 'send' or 'reject' for a stream whose rows were not held back",
                "hold_back(df, subject=..., time=..., delay=...).writeStream has such rows",
            )


def _written(cost: Any) -> str:
    """Return the text of a cost in a signature, without functions, which have no text."""
    if isinstance(cost, Mapping):
        texts = {name: _written(one) for name, one in sorted(cost.items()) if not callable(one)}
        return " ".join(f"{name}:{one}" for name, one in texts.items())
    return plain(cost) if isinstance(cost, (int, float)) else str(cost)


def _lane(subject: Any, lane: Any) -> Any:
    from pyspark.sql import functions

    return functions.when(subject.isNotNull(), lane)


def _in_units(span: float | timedelta, kind: str) -> float:
    """Return a span of time in the unit of a time column."""
    if kind == "number":
        return span.total_seconds() if isinstance(span, timedelta) else span
    length = span if isinstance(span, timedelta) else timedelta(seconds=span)
    if kind == "date":
        return length / timedelta(days=1)
    return length / timedelta(microseconds=1)
