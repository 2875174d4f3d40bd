"""What became of each message of a call.

Every operation answers for each message by one of these, in the order of the call. `ok` tells
whether what was asked for is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar


class Status(StrEnum):
    """Where a message is in its life."""

    NEW = "new"
    """It is due, and nobody has it."""
    LOST = "lost"
    """It is due, since whoever had it did not keep its lease."""
    WAITING = "waiting"
    """Its time is yet to come."""
    PROCESSING = "processing"
    """A consumer has a lease on it."""
    DEAD = "dead"
    """It was given up: after too many attempts, or with a reason of its own."""
    DELETED = "deleted"
    """It is not there any more, but its id is remembered."""


class Durability(IntEnum):
    """Who has a message when its create is answered: each waits for more than the one before."""

    NONE = 0
    """The memory of the server."""
    REPLICA = 1
    """And that of a replica. A failover may still choose another one."""
    AOF = 2
    """And the server's disk, flushed (Redis 7.2 or Valkey, with appendonly)."""


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """What became of the message `id`. Times are epoch milliseconds of the server's clock."""

    ok: ClassVar[bool] = False
    id: str


@dataclass(frozen=True, slots=True)
class Created(MessageOutcome):
    """It is on the timeline; `durability` says what was confirmed about it."""

    ok: ClassVar[bool] = True
    due: int
    version: int
    durability: Durability = Durability.NONE


@dataclass(frozen=True, slots=True)
class Duplicate(MessageOutcome):
    """There is, or was, such a message, and nothing was changed: this is what is known of it.
    `time` is when it is due, its lease ends, or it died."""

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
    """Redis did not answer for it, but for others of the call. It may have been carried out."""

    reason: str


@dataclass(frozen=True, slots=True)
class Moved(MessageOutcome):
    """It is due at another time."""

    ok: ClassVar[bool] = True
    due: int
    version: int


@dataclass(frozen=True, slots=True)
class Extended(MessageOutcome):
    """Its lease ends at `until`, which is no earlier than before."""

    ok: ClassVar[bool] = True
    until: int
    version: int


@dataclass(frozen=True, slots=True)
class Released(MessageOutcome):
    """Nobody has it, and it is due at another time."""

    ok: ClassVar[bool] = True
    due: int
    version: int


@dataclass(frozen=True, slots=True)
class Buried(MessageOutcome):
    """It is dead: nobody is given it, until its owner moves it."""

    ok: ClassVar[bool] = True
    version: int


@dataclass(frozen=True, slots=True)
class Deleted(MessageOutcome):
    """It is gone for good."""

    ok: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class AlreadyGone(MessageOutcome):
    """It was deleted before: by an earlier call whose answer was lost, or by somebody else."""

    ok: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class NotFound(MessageOutcome):
    """There is no such message."""


@dataclass(frozen=True, slots=True)
class NotOwner(MessageOutcome):
    """It belongs to another group."""


@dataclass(frozen=True, slots=True)
class Leased(MessageOutcome):
    """A consumer has it until `until`, and nobody else may do anything with it."""

    until: int


@dataclass(frozen=True, slots=True)
class VersionConflict(MessageOutcome):
    """It has changed since: it is at `version` by now."""

    version: int


@dataclass(frozen=True, slots=True)
class LeaseLost(MessageOutcome):
    """It is not this lease's any more: somebody else has it, or had it, or it was moved."""


@dataclass(frozen=True, slots=True)
class LeaseExpired(MessageOutcome):
    """The lease ended at `until`. Nobody else has taken the message yet, but anybody may."""

    until: int


@dataclass(frozen=True, slots=True)
class TimeInPast(MessageOutcome):
    """The time is before `now`, the server's."""

    now: int
