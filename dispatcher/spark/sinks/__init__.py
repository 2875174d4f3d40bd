"""Sinks for foreachBatch, and `dispatch`, which sends a whole DataFrame."""

from dispatcher.spark.sinks.event_time import EventTimeSink
from dispatcher.spark.sinks.subject import SubjectSink
from dispatcher.spark.sinks.unordered import dispatch

__all__ = ["EventTimeSink", "SubjectSink", "dispatch"]
