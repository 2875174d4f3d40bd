"""`df.writeStream.format("dispatcher")`: rows in batches, through a limit, without a ledger.

Without an order rows are sent as they come. With one, each task sorts its own rows: a format cannot
choose the task to which Spark gives a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import SizeOptions, for_tasks, prices_of
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._rows.sorting import sorted_batches
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark._usable_columns import (
    NAMES_TO_SEND,
    NUMBERS,
    TIMES_TO_SEND,
    check_values,
    usable,
)
from dispatcher.spark.sinks._frames import kind_of_time
from dispatcher.spark.sinks._option_texts import amounts_in, cost_in
from dispatcher.spark.sinks.subject import OrderOptions
from limiters import LimiterConfig
from limiters._support.options import DeclaredOption, append, line, options_of
from limiters._support.validation import UNSHOWN, ArgumentError, named, seconds
from limiters.limits import Limits, read_limits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ONLY_SENDS = "the format 'dispatcher' only sends"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FormatOptions(SizeOptions):
    """The options of the format about how rows are sent."""


def _named(cls: type, **others: str) -> dict[str, DeclaredOption]:
    """Return the options of `cls` that can be written as a text, by their names in Spark."""
    return {
        others.get(name) or _in_camel_case(name): option
        for name, option in options_of(cls).items()
        if option.can_be_written
    }


def _in_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


LIMIT = _named(LimiterConfig, url="redis", name="limit")
SENDING = _named(FormatOptions)
IN_ORDER = ("subject", "time", "order", "pack")
ORDER = {
    name: replace(
        option,
        help='"subject" keeps the rows of a subject in order, "global" all rows of a task: then a '
        "batch holds rows of several subjects in order of time",
    )
    if name == "order"
    else option
    for name, option in _named(OrderOptions).items()
    if name in IN_ORDER
}
OWN = {
    "cost": "of a row: a number, or an expression of columns, such as `size / 4`; where the limit "
    "has several dimensions, `requests=1, tokens=size / 4`",
    "costColumn": "the name of the column that says what a row costs, which the handler is given "
    "too",
    "retryWait": "how many seconds after it failed a batch is sent again; without it none is",
}
OF_SPARK = ("path", "checkpointLocation", "queryName")
"""Options of Spark itself, which it passes on to a format."""
_IN_DIMENSIONS: dict[str, Callable[[str, str], Any]] = {
    "sharedCapacity": read_limits,
    **dict.fromkeys(("reservedCapacity", "batchCost", "maxBatchCost"), amounts_in),
}
"""The functions that read options that may have several dimensions."""
_TRUTH = {"true": True, "false": False}
_CALLED = {int: "a whole number", float: "a number", bool: "true or false"}
OPTION_OF = {option.name: name for name, option in (LIMIT | SENDING | ORDER).items()}


def _listed() -> list[str]:
    """Return the lines of the docstring about each option."""
    own = [line(name, text) for name, text in OWN.items()]
    sending, order, limit = (
        [line(name, one.help, one.unit) for name, one in family.items()]
        for family in (SENDING, ORDER, LIMIT)
    )
    return sending + own + order + limit


@dataclass
class Sent(datasource.WriterCommitMessage):
    """The message of a task to the driver when all of its rows are acknowledged."""

    numbers: Mapping[str, float]


class _Writer:
    """Sends the record batches of a task."""

    def __init__(self, job: TaskJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send all rows, and return when all are acknowledged."""
        time = self._job.columns.time
        if time is not None:
            iterator = sorted_batches(iterator, self._job.columns.sequence, time)
        (sums,) = self._job.run(iterator)
        return Sent({name: sums.column(name)[0].as_py() for name in sums.schema.names})


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of `df.write`, which sends rows once."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`, for each micro-batch."""


class DispatcherDataSource(datasource.DataSource):
    """Sends rows in batches, as a format of Spark 4.1 and newer::

        spark.dataSource.register(DispatcherDataSource)
        df.writeStream.format("dispatcher").option("handler", "shop.handlers:send")...

    With `subject` and `time` the rows of a subject are sent in order of time, if Spark gives all of
    them to one task: `df.repartition("device").writeStream...`. Each task holds its rows in memory
    then. Without them rows go as they come.

    A replayed micro-batch sends all its rows again, in other batches. For replays that do not, and
    for an order over micro-batches, there is the SubjectSink.

    Its options, of which functions are named as "module:function". Where costs have several
    dimensions, amounts are written like `requests=1, calls=1`, and a shared capacity like
    `requests=600/60s+10/1s,calls=20slots`:
    """

    @classmethod
    def name(cls) -> str:
        return "dispatcher"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise ArgumentError("mode", UNSHOWN, "be 'append'", ONLY_SENDS)
        return BatchWriter(job_of(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        if overwrite:
            raise ArgumentError("outputMode", UNSHOWN, "be 'append'", ONLY_SENDS)
        return StreamWriter(job_of(self.options, schema))


append(DispatcherDataSource, _listed())


def job_of(options: Mapping[str, str], schema: StructType) -> TaskJob:
    """Return the job of the tasks by `options`. ArgumentError if they are wrong."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in (*LIMIT, *SENDING, *OWN, *ORDER, *OF_SPARK)}
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
    if column is not None and "cost" in given:
        raise ArgumentError("cost", UNSHOWN, "be left out where there is a costColumn")
    limit = _chosen(given, LIMIT)
    if limit and not ("name" in limit or "reserved_capacity" in limit):
        first = next(option for option in LIMIT if option.lower() in given)
        raise ArgumentError(
            first,
            UNSHOWN,
            "go with 'limit', the name of what is shared, or 'reservedCapacity'",
            "rows would be sent without any limit",
        )
    cost = cost_in("cost", given.get("cost", "1"))
    if column is not None:
        shared = limit.get("shared_capacity")
        if isinstance(shared, Limits) and not shared.is_scalar:
            advice = f"name it in cost, as in '{shared.dimensions[0]}={column}'"
            requirement = "be left out where the limit has several dimensions"
            raise ArgumentError("costColumn", column, requirement, advice)
        cost = Expression.column(column).text
    with named(OPTION_OF):  # errors name the options, not our parameters
        sending = FormatOptions(
            cost=cost,
            limiter=LimiterConfig(**limit) if limit else None,
            retry=_retry(given),
            **_chosen(given, SENDING),
        )
        prices = prices_of(sending)
        order = _ordered(given, schema)
    costs = _costs("cost" if column is None else "costColumn", prices.of_spark, schema)
    columns, division, kind = Columns(None, None, costs=costs), None, "number"
    cut = Cut(sending.max_batch_size, prices.most, same_subject=False, in_order=False)
    if order is not None:
        kind = kind_of_time(schema, order.time)
        by_subject = order.order == "subject"
        if by_subject:
            columns = Columns(order.subject, order.time, costs=costs)
        else:
            columns = Columns(None, order.time, subject=order.subject, costs=costs)
        if by_subject and order.pack:
            division = Division(1, sending.max_batch_size, prices.most)
        cut = Cut(sending.max_batch_size, prices.most, same_subject=by_subject)
    return TaskJob(
        sending=for_tasks(sending),
        columns=columns,
        cut=cut,
        time_kind=kind,
        query="",
        batch=0,
        claim=None,
        division=division,
        repeatable=False,
    )


def _costs(option: str, prices: Mapping[str, str], schema: StructType) -> dict[str, Expression]:
    """Return the costs of a row that are computed from columns. ArgumentError if one of the columns
    is not a number."""
    costs = {dimension: Expression(text) for dimension, text in prices.items()}
    for expression in costs.values():
        for name in expression.columns(option):
            usable(option, name, schema, NUMBERS)
    return costs


def _ordered(given: Mapping[str, str], schema: StructType) -> OrderOptions | None:
    """Return the order in which rows are sent; None: they are sent as they come."""
    chosen = _chosen(given, ORDER)
    if not chosen:
        return None
    for needed, use in (("subject", NAMES_TO_SEND), ("time", TIMES_TO_SEND)):
        if needed not in chosen:
            first = next(option for option in ORDER if option.lower() in given)
            raise ArgumentError(
                needed, UNSHOWN, f"go with {first!r}", "an order is one of subjects, by time"
            )
        usable(needed, chosen[needed], schema, use)
    return OrderOptions(**chosen)


def _chosen(given: Mapping[str, str], known: Mapping[str, DeclaredOption]) -> dict[str, Any]:
    return {
        option.name: _read(name, given[name.lower()], option.kind)
        for name, option in known.items()
        if name.lower() in given
    }


def _retry(given: Mapping[str, str]) -> Any:
    """Return the wait strategy of the option `retryWait`."""
    if "retrywait" in given:
        wait = seconds("retryWait", _read("retryWait", given["retrywait"], float), zero=True)
        return wait_fixed(wait)
    if "maxattempts" in given:
        raise ArgumentError(
            "maxAttempts",
            UNSHOWN,
            "go with 'retryWait', the seconds before a failed batch is sent again",
            "without it none is",
        )
    return None


def _read(option: str, text: str, kind: Any) -> Any:
    if option in _IN_DIMENSIONS:
        return _IN_DIMENSIONS[option](option, text)
    try:
        return _TRUTH[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise ArgumentError(option, text, f"be {_CALLED[kind]}") from None
