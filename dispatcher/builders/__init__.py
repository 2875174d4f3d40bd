"""Build batches by event time and by subject: pure, deterministic, usable alone."""

from dispatcher.builders.errors import MeasurementError
from dispatcher.builders.event_time_builder import Batch, EventTimeBuilder
from dispatcher.builders.subject_builder import SubjectBatch, SubjectBuilder

__all__ = ["Batch", "EventTimeBuilder", "MeasurementError", "SubjectBatch", "SubjectBuilder"]
