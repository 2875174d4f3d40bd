"""What goes wrong with a whole call. What goes wrong with one message is an outcome."""

from __future__ import annotations

from limiters.errors import DispatcherError


class TimelineError(DispatcherError):
    """The root of the Timeline's errors."""


class TimelineUnavailableError(TimelineError):
    """Redis gave no answer, or refused. The call may have been carried out all the same; it is
    safe to send it again, as the same Message objects keep the ids they were given."""

    key: str = ""
    """The key that is of another type than it should be, if that is why."""


class BucketCountError(TimelineError):
    """The topic has another number of buckets: `stored`, and not `asked`."""

    def __init__(self, topic: str, asked: int, stored: int) -> None:
        self.topic = topic
        self.asked = asked
        self.stored = stored
        super().__init__(
            f"buckets is {asked}, but the topic {topic!r} was created with {stored}, which never "
            f"changes; say buckets={stored}, or leave it out. A process that used the topic before "
            "somebody created it anew has to be started again"
        )
