"""Steps of a stream that keep rows in Spark's own state."""

from dispatcher.spark.stateful.event_time import event_time_batches
from dispatcher.spark.stateful.hold_back import hold_back
from dispatcher.spark.stateful.saved_state import flush_held_rows, flush_open_batches

__all__ = ["event_time_batches", "flush_held_rows", "flush_open_batches", "hold_back"]
