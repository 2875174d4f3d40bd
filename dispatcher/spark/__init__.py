"""Spark Structured Streaming: batches by event time, and rows held back until they are in order."""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"dispatcher.spark needs {error.name}: install it with: pip install 'batch-dispatcher[spark]'"
    ) from error

from dispatcher.spark.event_time import ByEventTime, event_time_batches

__all__ = ["ByEventTime", "event_time_batches"]
