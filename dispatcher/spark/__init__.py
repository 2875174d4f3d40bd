"""Spark: sinks for foreachBatch whose executors share one limit, and streams of batches."""

try:
    import pyarrow as _pyarrow
    import pyspark as _pyspark
except ImportError as error:
    raise ImportError(
        f"dispatcher.spark needs {error.name}: pip install 'batch-dispatcher[spark]'"
    ) from error

from dispatcher.spark.context import Context
from dispatcher.spark.dead_letters import DeadLetterTable, DeadLetterTimeline
from dispatcher.spark.errors import (
    BatchFailedError,
    ChangedSinkError,
    LedgerError,
    MovedCheckpointError,
    SparkSinkError,
    SupersededError,
    UnusableRowsError,
)
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.subject_sink import SubjectSink
from limiters import LimiterConfig

del _pyarrow, _pyspark

__all__ = [
    "BatchFailedError",
    "ChangedSinkError",
    "Context",
    "DeadLetterTable",
    "DeadLetterTimeline",
    "LedgerError",
    "LimiterConfig",
    "MicroBatch",
    "MovedCheckpointError",
    "SparkSinkError",
    "SubjectSink",
    "SupersededError",
    "UnusableRowsError",
]
