"""From what a builder built to the Batcher: one batch built is one batch raised, in order."""

from dispatcher.bridges.clocks import EpochClock, UtcClock
from dispatcher.bridges.event_time_driver import EventTimeDriver
from dispatcher.bridges.subject_sender import SubjectSender

__all__ = ["EpochClock", "EventTimeDriver", "SubjectSender", "UtcClock"]
