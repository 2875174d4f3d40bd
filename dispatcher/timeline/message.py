"""Messages as producers create them, as consumers lease them, and as owners read them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dispatcher.timeline._encoding.times import Moment, check_one_of
from dispatcher.timeline.outcomes import MessageOutcome, Status
from limiters._support.validation import Seconds


@dataclass(slots=True)
class Message:
    """A message that is due `at` a time (a datetime with a time zone, or epoch milliseconds), or
    after a `delay` in seconds, by the server's clock. Without either it is due immediately; with
    both it is refused.

    The body is bytes, a str, or a JSON value, up to 256 KiB. Without an `id`, `create` generates
    one and stores it here, so that the same object can be sent again safely if an answer was lost.
    All else is checked by `create`, which returns an outcome for each message. Not thread-safe.

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

    `due` is when it was due, `attempt` how often it was leased, this time included. The consumer
    has to finish the work, and delete the message, before the lease ends. `extend` changes this
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
    """The end by this process's monotonic clock, on the safe side."""
    _place: tuple[int, bytes] = field(repr=False, compare=False)
    """Its bucket, and its id as it is stored there. Another program may have stored an id that is
    no text, or that belongs to another bucket; its lease can be settled all the same."""

    def is_expired(self) -> bool:
        """Whether it may have ended. Does not depend on the wall clock, which may be set."""
        return time.monotonic() >= self._ends

    @property
    def remaining(self) -> float:
        """Seconds until it ends, at least."""
        return max(0.0, self._ends - time.monotonic())


class Leases(list[Lease]):
    """The result of `lease`; `more` is True if more messages are due now, by the stored times."""

    more: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot(MessageOutcome):
    """A message as its owner reads it. `time` is when it is due, its lease ends, or it died. While
    a consumer has a lease on it, its body is None."""

    ok: ClassVar[bool] = True
    body: Any
    status: Status
    time: int
    version: int
    attempts: int
    group: str = field(default="", compare=False)  # it changes only with the id
    """The group that owns it."""
    reason: str = ""
    """The reason why it is dead, if it is."""
    _place: tuple[int, bytes, bytes] | None = field(default=None, repr=False, compare=False)
    """Its bucket, and its id and owner as they are stored there, for operators: another program may
    have stored what is no text, or used another bucket."""
