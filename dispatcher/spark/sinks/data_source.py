"""`df.writeStream.format("dispatcher")`: rows that need no order, in batches, through a limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql import datasource
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
except ImportError:
    raise ImportError(
        "the format 'dispatcher' needs Spark 4.1 or newer; SubjectSink and dispatch do not"
    ) from None

from tenacity import wait_fixed

from dispatcher._handler import check
from dispatcher.spark._options import SinkOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.sums import NAMES
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark._usable_columns import check_values
from limiters import LimiterConfig
from limiters._support.validation import UNSHOWN, ArgumentError, named, seconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

LIMIT = {
    "redis": ("url", str),
    "limit": ("name", str),
    "sharedCapacity": ("shared_capacity", float),
    "reservedCapacity": ("reserved_capacity", float),
    "factor": ("factor", float),
    "period": ("period", float),
    "leaseTime": ("lease_time", float),
    "maxInterval": ("max_interval", float),
    "weight": ("weight", float),
    "prefix": ("prefix", str),
}
SENDING = {
    "rows": ("rows", str),
    "maxBatchSize": ("max_batch_size", int),
    "maxBatchCost": ("max_batch_cost", float),
    "concurrency": ("concurrency", int),
    "maxAttempts": ("max_attempts", int),
    "maxOperationTime": ("max_operation_time", float),
    "deadLetters": ("dead_letters", str),
}
OWN = ("handler", "cost", "costColumn", "retryWait", "path", "checkpointLocation", "queryName")
"""And those that Spark hands through."""
ONLY_SENDS = "the format 'dispatcher' only sends"
OPTION_OF = {parameter: option for option, (parameter, _) in (LIMIT | SENDING).items()}


@dataclass
class Sent(datasource.WriterCommitMessage):
    """What a task says when all of its rows are acknowledged."""

    numbers: Mapping[str, float]


class _Writer:
    """Sends the record batches of a task."""

    def __init__(self, job: TaskJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Sends all of it, and says so when all is acknowledged."""
        (sums,) = self._job.run(iterator)
        return Sent({name: sums.column(name)[0].as_py() for name in NAMES})


class BatchWriter(_Writer, DataSourceArrowWriter):
    """For df.write."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """For df.writeStream."""


class DispatcherDataSource(datasource.DataSource):
    """Batches of rows in no order, as a format of Spark 4.1 and newer:

        spark.dataSource.register(DispatcherDataSource)
        df.writeStream.format("dispatcher").option("handler", "shop.handlers:send")...

    Options: handler ("module:function"), cost (a number) or costColumn (the name of a column,
    which the handler is given too), rows, maxBatchSize, maxBatchCost, concurrency, retryWait
    (seconds before a failed batch is sent again; without it none is), maxAttempts,
    maxOperationTime, deadLetters ("module:function"); redis, limit, sharedCapacity,
    reservedCapacity, factor, period, leaseTime, maxInterval, weight, prefix.

    A replayed micro-batch sends all its rows again. For order, and for replays that do not,
    there is the SubjectSink.
    """

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "dispatcher"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """See DataSource."""
        if overwrite:
            raise ArgumentError("mode", UNSHOWN, "be 'append'", ONLY_SENDS)
        return BatchWriter(job_of(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """See DataSource."""
        if overwrite:
            raise ArgumentError("outputMode", UNSHOWN, "be 'append'", ONLY_SENDS)
        return StreamWriter(job_of(self.options, schema))


def job_of(options: Mapping[str, str], schema: StructType) -> TaskJob:
    """What tasks do, by `options`. ArgumentError if they are wrong."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in (*LIMIT, *SENDING, *OWN)}
    unknown = sorted(set(given) - set(known))
    if unknown:
        known_ones = ", ".join(known.values())
        raise ArgumentError("option", unknown[0], f"be one of {known_ones}")
    if "handler" not in given:
        raise ArgumentError("handler", UNSHOWN, "name a function: 'module:function'")
    check(given["handler"])
    check_values(schema)
    column = given.get("costcolumn")
    if column is not None and column not in schema.names:
        raise ArgumentError("costColumn", column, "be a column", f"there are {schema.names}")
    limit = _read(given, LIMIT)
    if limit and not ("name" in limit or "reserved_capacity" in limit):
        said = next(option for option in LIMIT if option.lower() in given)
        raise ArgumentError(
            said,
            UNSHOWN,
            "go with 'limit', the name of what is shared, or 'reservedCapacity'",
            "rows would be sent without any limit",
        )
    cost = column or _number("cost", given.get("cost", "1"), float)
    with named(OPTION_OF):  # a user knows the options, not our parameters
        sending = SinkOptions(
            handler=given["handler"],
            cost=cost,
            limiter=LimiterConfig(**limit) if limit else None,
            retry=_retry(given),
            **_read(given, SENDING),
        )
    cut = Cut(sending.max_batch_size, sending.max_batch_cost, same_subject=False, in_order=False)
    columns = Columns(None, None, cost=column)
    return TaskJob(sending, columns, cut, "number", "", 0, None)


def _read(given: Mapping[str, str], named: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    return {
        parameter: _number(option, given[option.lower()], kind)
        for option, (parameter, kind) in named.items()
        if option.lower() in given
    }


def _retry(given: Mapping[str, str]) -> Any:
    """The wait strategy that the option `retryWait` stands for."""
    if "retrywait" in given:
        wait = seconds("retryWait", _number("retryWait", given["retrywait"], float), zero=True)
        return wait_fixed(wait)
    if "maxattempts" in given:
        raise ArgumentError(
            "maxAttempts",
            UNSHOWN,
            "go with 'retryWait', the seconds before a failed batch is sent again",
            "without it none is",
        )
    return None


def _number(option: str, text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ArgumentError(option, text, f"be {what}") from None
