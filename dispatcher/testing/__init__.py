"""For tests of one's own: a Batcher without threads, on time that is turned by hand."""

from dispatcher.testing.inline import InlineBatcher, StuckError
from dispatcher.testing.runners import RaisedBatch
from limiters.testing.clock import ManualClock

__all__ = ["InlineBatcher", "ManualClock", "RaisedBatch", "StuckError"]
