"""Spark Structured Streaming: batches by event time, and rows held back until they are in order."""

from __future__ import annotations

try:
    import pandas as _pandas  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"dispatcher.spark needs {error.name}, which is not installed; the extra brings it along: "
        "pip install 'batch-dispatcher[spark]'"
    ) from error

from dispatcher.spark.event_time import event_time_batches
from dispatcher.spark.hold_back import hold_back
from dispatcher.spark.holding import LATE_COLUMN
from dispatcher.spark.rules import ByEventTime
from dispatcher.spark.saved_state import flush_held_rows, flush_open_batches

__all__ = [
    "LATE_COLUMN",
    "ByEventTime",
    "event_time_batches",
    "flush_held_rows",
    "flush_open_batches",
    "hold_back",
]
