"""Test your code with a Batcher without threads, on a clock that is set by hand."""

from dispatcher.testing.inline import InlineBatcher, StuckError
from dispatcher.testing.runners import RaisedBatch
from limiters.testing.clock import ManualClock

__all__ = ["InlineBatcher", "ManualClock", "RaisedBatch", "StuckError"]
