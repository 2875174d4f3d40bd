"""dispatch: sends all rows of a DataFrame, as a back-fill does."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import SizeOptions, prices_of
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.progress import Counter, Showing
from dispatcher.spark._usable_columns import check_values, column_name
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._base import Prepared, Sink
from dispatcher.spark.sinks._frames import column_names, with_costs
from dispatcher.spark.sinks._run_options import RunOptions
from dispatcher.spark.sinks.subject import SubjectSink
from limiters._support.options import CheckedOptions, about, values_of
from limiters._support.signatures import lists, takes
from limiters._support.validation import UNSHOWN, ArgumentError, count, flag, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnorderedSink(Sink, SizeOptions):
    """Sends rows as they come. There is no ledger, since it could not identify rows without an
    order."""

    def _signature(self) -> str:
        return "rows in no order"

    def _prepare(self, df: DataFrame, division: Division | None) -> Prepared:
        check_values(df.schema)
        prices = prices_of(self)
        df, costs, added = with_costs(df, prices.of_spark)
        if self.partitions is not None:
            df = df.repartition(self.partitions)
        return Prepared(
            df,
            Columns(None, None, costs=costs, added=tuple(added)),
            Cut(self.max_batch_size, prices.most, same_subject=False, in_order=False),
            "number",
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JobOptions(CheckedOptions):
    """Options of the order of a back-fill, its name and its progress."""

    subject: str | None = field(
        default=None,
        metadata=about(
            "the name of the column that says whose a row is: rows of a subject go in order of "
            "time, one batch at a time. Without it rows go as they come, and a batch holds "
            "whatever comes together",
            column_name,
        ),
    )
    time: str | None = field(
        default=None,
        metadata=about("the name of the column that says when it was; with `subject`", column_name),
    )
    identity: Sequence[str] | None = field(
        default=None, metadata=about("as with SubjectSink; with `subject`", column_names)
    )
    pack: bool = field(
        default=True,
        metadata=about(
            "whether a batch holds rows of several subjects, as with SubjectSink; with `subject`",
            flag,
        ),
    )
    job: str | None = field(
        default=None,
        metadata=about(
            "a name under which it is remembered what was sent, so that the same call goes on "
            "after a failure, and once it has ended sends nothing again: the DataFrame must have "
            "the same rows each time. It needs `subject` and `time`, and a Redis: `redis`, or "
            "that of the limit",
            text,
        ),
    )
    progress: bool = field(
        default=True,
        metadata=about(
            "whether stderr shows how many rows were sent, if there is a Redis through which "
            "tasks can report",
            flag,
        ),
    )
    total: int | None = field(
        default=None,
        metadata=about(
            "how many rows there are, so that `progress` shows how long it will take", count
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.subject is None) != (self.time is None):
            missing, other = ("subject", "time") if self.subject is None else ("time", "subject")
            raise ArgumentError(
                missing, UNSHOWN, f"go with {other}", "say both, or none to send in no order"
            )
        if self.job is not None and self.subject is None:
            advice = "rows in no order cannot be identified once they are sent"
            raise ArgumentError("job", self.job, "go with subject and time", advice)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BackFillOptions(RunOptions, SizeOptions, JobOptions):
    """All options of `dispatch`. Fields of the last base come first."""


@lists(BackFillOptions)
@takes(BackFillOptions)
def dispatch(df: DataFrame, options: BackFillOptions) -> MicroBatch:
    """Send all rows of a DataFrame that is not a stream, at the pace of a limit that all executors
    share, and return the results. All options but the handler are keywords:
    """
    if df.isStreaming:
        raise ArgumentError("df", UNSHOWN, "be one that ends", "a stream takes a SubjectSink")
    sink, limiter = sink_of(options), options.limiter
    url = options.redis or (None if limiter is None else limiter.url)
    with contextlib.ExitStack() as stack:
        counter = None
        if options.progress and url is not None:
            counter = Counter.new(url, options.prefix, _query(options))
            stack.enter_context(Showing(counter, options.total))
        return sink.send(df, 0, counter)


def sink_of(options: BackFillOptions) -> Sink:
    """Return the sink that sends a back-fill."""
    kind: Any = UnorderedSink if options.subject is None else SubjectSink
    remembered = options.job is not None
    sink: Sink = kind(**values_of(kind, options), query=_query(options), ledger=remembered)
    return sink


def _query(options: BackFillOptions) -> str:
    return options.job or "dispatch"
