"""Send what builders and gates produce through a Batcher, in order."""

from dispatcher.senders.clocks import EpochClock, UtcClock
from dispatcher.senders.event_time_driver import EventTimeDriver
from dispatcher.senders.gated_sender import GatedSender
from dispatcher.senders.subject_sender import SubjectSender

__all__ = ["EpochClock", "EventTimeDriver", "GatedSender", "SubjectSender", "UtcClock"]
