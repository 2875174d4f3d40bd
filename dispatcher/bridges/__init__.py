"""From builders and gates to the Batcher, in order."""

from dispatcher.bridges.clocks import EpochClock, UtcClock
from dispatcher.bridges.event_time_driver import EventTimeDriver
from dispatcher.bridges.gated_sender import GatedSender
from dispatcher.bridges.subject_sender import SubjectSender

__all__ = ["EpochClock", "EventTimeDriver", "GatedSender", "SubjectSender", "UtcClock"]
