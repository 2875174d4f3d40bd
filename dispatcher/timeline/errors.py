"""Errors of a whole call. An error of one message is an outcome instead."""

from __future__ import annotations

from limiters.errors import DispatcherError


class TimelineError(DispatcherError):
    """Base class of the Timeline's errors."""


class TimelineUnavailableError(TimelineError):
    """Redis gave no answer, or refused. The call may have been carried out all the same. It is safe
    to send it again with the same Message objects, which keep their ids."""

    key: str = ""
    """The key of another type, if that is the reason."""


class BucketCountError(TimelineError):
    """The topic has `stored` buckets, not the number `asked`."""

    def __init__(self, topic: str, asked: int, stored: int) -> None:
        self.topic = topic
        self.asked = asked
        self.stored = stored
        super().__init__(
            f"buckets is {asked}, but the topic {topic!r} was created with {stored}, which never "
            f"changes; pass buckets={stored}, or leave it out. A process that used it before it "
            "was deleted and created again has to be restarted"
        )
