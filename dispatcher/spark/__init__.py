"""Spark: sinks for foreachBatch whose executors share one limit, and streams of batches."""

try:
    import pandas as _pandas
    import pyarrow as _pyarrow
    import pyspark as _pyspark
except ImportError as error:
    raise ImportError(
        f"dispatcher.spark needs {error.name or f'what fits together ({error})'}: "
        "pip install 'batch-dispatcher[spark]'"
    ) from error

from dispatcher.spark.context import Context, SubjectRows
from dispatcher.spark.dead_letters import DeadLetterTable, DeadLetterTimeline
from dispatcher.spark.errors import (
    BatchFailedError,
    ChangedSinkError,
    LedgerError,
    LimitAwayError,
    MovedCheckpointError,
    SparkSinkError,
    SupersededError,
    UnusableRowsError,
)
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks.event_time import EventTimeSink
from dispatcher.spark.sinks.subject import SubjectSink
from dispatcher.spark.sinks.unordered import dispatch
from dispatcher.spark.stateful._holding import LATE_COLUMN
from dispatcher.spark.stateful._options import ByEventTime
from dispatcher.spark.stateful.event_time import event_time_batches
from dispatcher.spark.stateful.hold_back import hold_back
from dispatcher.spark.stateful.saved_state import flush_held_rows, flush_open_batches
from limiters import LimiterConfig

del _pandas, _pyarrow, _pyspark

__all__ = [
    "LATE_COLUMN",
    "BatchFailedError",
    "ByEventTime",
    "ChangedSinkError",
    "Context",
    "DeadLetterTable",
    "DeadLetterTimeline",
    "DispatcherDataSource",
    "EventTimeSink",
    "LedgerError",
    "LimitAwayError",
    "LimiterConfig",
    "MicroBatch",
    "MovedCheckpointError",
    "SparkSinkError",
    "SubjectRows",
    "SubjectSink",
    "SupersededError",
    "UnusableRowsError",
    "dispatch",
    "event_time_batches",
    "flush_held_rows",
    "flush_open_batches",
    "hold_back",
]


def _has_data_sources() -> bool:
    try:
        from pyspark.sql import datasource
    except ImportError:
        return False
    return hasattr(datasource, "DataSourceStreamArrowWriter")


if not _has_data_sources():  # so that `import *` works with Spark 3.5 and 4.0 as well
    __all__.remove("DispatcherDataSource")


def __getattr__(name: str) -> object:
    if name == "DispatcherDataSource":
        from dispatcher.spark.sinks.data_source import DispatcherDataSource

        return DispatcherDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
