"""What is put onto the timeline, what a consumer is given, and what an owner sees."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dispatcher.timeline._encoding.times import Moment, check_one_of
from dispatcher.timeline.outcomes import MessageOutcome, Status
from limiters._support.validation import Seconds


@dataclass(slots=True)
class Message:
    """Something that is due `at` a time (a datetime with a time zone, or epoch milliseconds), or
    after a `delay`, which the server reckons; with neither, at once. Both are refused.

    The body is bytes, a str, or what JSON can say, up to 256 KiB. Without an `id` it is given
    one by `create`, which leaves it here: so the same object can be sent again safely when an
    answer was lost. All else is checked by `create`, which answers for each. Not thread-safe.

    >>> Message({"user": 7}, delay=3 * 86_400, id="welcome-7").id
    'welcome-7'
    """

    body: Any
    at: Moment | None = field(default=None, kw_only=True)
    delay: Seconds | None = field(default=None, kw_only=True)
    id: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_one_of(self.at, self.delay)


@dataclass(slots=True)
class Lease:
    """A message that one consumer has until `until`, by the server's clock.

    `due` is when it was due, `attempt` how often it was leased, this time included. What the
    consumer does with it has to be done, and deleted, before it ends. `extend` prolongs this
    object too. Threads may share one; only one of them should extend it.
    """

    id: str
    body: Any
    due: int
    until: int
    token: int
    attempt: int
    version: int
    _ends: float = field(repr=False, compare=False)
    """By this process's monotonic clock, on the safe side."""
    _place: tuple[int, bytes] = field(repr=False, compare=False)
    """Its bucket, and its id as it is stored there: another program may have written an id that
    is no text, or into a bucket that is not the id's, and its lease can be settled all the same."""

    def is_expired(self) -> bool:
        """Whether it may have ended. Wall clocks, also one that is put right, change nothing."""
        return time.monotonic() >= self._ends

    @property
    def remaining(self) -> float:
        """The seconds that it lasts at least."""
        return max(0.0, self._ends - time.monotonic())


class Leases(list[Lease]):
    """What `lease` has brought; `more` tells that more is due at once, as far as is known."""

    more: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot(MessageOutcome):
    """What its owner sees of a message. `time` is when it is due, its lease ends, or it died.
    While somebody has a lease on it, its body is not told."""

    ok: ClassVar[bool] = True
    body: Any
    status: Status
    time: int
    version: int
    attempts: int
    group: str = field(default="", compare=False)  # it is the same as long as the id is
    """Whose it is."""
    reason: str = ""
    """Why it is dead, if it is."""
    _place: tuple[int, bytes, bytes] | None = field(default=None, repr=False, compare=False)
    """Its bucket, and its id and owner as they are stored there, for whoever looks after the topic:
    another program may have written what is no text, or into another bucket."""
