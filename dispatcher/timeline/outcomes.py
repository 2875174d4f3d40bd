"""Outcomes of a call, one for each message.

Every operation returns one of these for each message, in the order of the call. `ok` is True if the
requested state holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar


class Status(StrEnum):
    """The state of a message."""

    NEW = "new"
    """Due, and without a lease so far."""
    LOST = "lost"
    """Due again, because the lease ended before the message was settled."""
    WAITING = "waiting"
    """Due at a later time."""
    PROCESSING = "processing"
    """Leased by a consumer."""
    DEAD = "dead"
    """Given up, after too many attempts or for a reason of its own."""
    DELETED = "deleted"
    """Deleted; its id is remembered."""


class Durability(IntEnum):
    """Where a created message is stored when `create` returns. Each includes those before."""

    NONE = 0
    """Only in the memory of the server."""
    REPLICA = 1
    """In the memory of a replica too. A failover may still choose another replica."""
    AOF = 2
    """On the server's disk, flushed (Redis 7.2 or Valkey, with appendonly)."""


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """Outcome for the message `id`. Times are epoch milliseconds of the server's clock."""

    ok: ClassVar[bool] = False
    id: str


@dataclass(frozen=True, slots=True)
class Created(MessageOutcome):
    """The message was created; `durability` is what was confirmed."""

    ok: ClassVar[bool] = True
    due: int
    version: int
    durability: Durability = Durability.NONE


@dataclass(frozen=True, slots=True)
class Duplicate(MessageOutcome):
    """A message with this id exists, or existed, and nothing was changed. `time` is when it is due,
    its lease ends, or it died."""

    status: Status
    time: int
    version: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Invalid(MessageOutcome):
    """It cannot be used, and was not sent; `reason` names the parameter and the value."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoAnswer(MessageOutcome):
    """Redis did not answer for this message, but for others of the call. The change may have been
    carried out."""

    reason: str


@dataclass(frozen=True, slots=True)
class Moved(MessageOutcome):
    """The message is due at another time."""

    ok: ClassVar[bool] = True
    due: int
    version: int


@dataclass(frozen=True, slots=True)
class Extended(MessageOutcome):
    """The lease ends at `until`, which is no earlier than before."""

    ok: ClassVar[bool] = True
    until: int
    version: int


@dataclass(frozen=True, slots=True)
class Released(MessageOutcome):
    """The message has no lease any more, and is due at another time."""

    ok: ClassVar[bool] = True
    due: int
    version: int


@dataclass(frozen=True, slots=True)
class Buried(MessageOutcome):
    """The message is dead: it is not leased until its owner moves it."""

    ok: ClassVar[bool] = True
    version: int


@dataclass(frozen=True, slots=True)
class Deleted(MessageOutcome):
    """The message was deleted."""

    ok: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class AlreadyGone(MessageOutcome):
    """It was deleted before: by an earlier call whose answer was lost, or by another program."""

    ok: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class NotFound(MessageOutcome):
    """There is no such message."""


@dataclass(frozen=True, slots=True)
class NotOwner(MessageOutcome):
    """It belongs to another group."""


@dataclass(frozen=True, slots=True)
class Leased(MessageOutcome):
    """A consumer has a lease until `until`, which excludes all others."""

    until: int


@dataclass(frozen=True, slots=True)
class VersionConflict(MessageOutcome):
    """It has changed since, and is now at `version`."""

    version: int


@dataclass(frozen=True, slots=True)
class LeaseLost(MessageOutcome):
    """The message has another lease, or had one, or was moved."""


@dataclass(frozen=True, slots=True)
class LeaseExpired(MessageOutcome):
    """The lease ended at `until`. No other consumer has the message yet, but each may lease it."""

    until: int


@dataclass(frozen=True, slots=True)
class TimeInPast(MessageOutcome):
    """The time is before `now`, the server's time."""

    now: int
