"""Endings of leases: many leases end in one call, each in its own way. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.times import Moment, when
from limiters._support.validation import ArgumentError, Seconds

LONGEST_REASON = 1_000
"""Number of bytes that are kept of the reason why a message is dead."""

EXTEND, RELEASE, UNTOUCHED, DELETE, BURY = range(1, 6)
"""The codes of what hold.lua does with a lease."""


class Deed(NamedTuple):
    """The order to hold.lua for one lease."""

    action: int
    relative: bool = True
    time_ms: int = 0
    why: bytes = b""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the message: it is done."""

    def deed(self) -> Deed:
        return Deed(DELETE)


@dataclass(frozen=True, slots=True)
class ReleaseLease:
    """Make the message due again, `at` a time or after a `delay`; without either, now. Unless
    `attempted` is False, the lease counts as an attempt."""

    at: Moment | None = None
    delay: Seconds | None = None
    attempted: bool = True

    def deed(self) -> Deed:
        return Deed(RELEASE if self.attempted else UNTOUCHED, *when(self.at, self.delay))


@dataclass(frozen=True, slots=True)
class Bury:
    """Move the message to the dead letters; the first thousand bytes of the reason are kept."""

    reason: str

    def deed(self) -> Deed:
        if not isinstance(self.reason, str):
            raise ArgumentError("reason", self.reason, "be a text")
        why = ids.as_bytes(self.reason)[:LONGEST_REASON].decode("utf-8", "ignore").encode()
        return Deed(BURY, why=why)


Ending = Delete | ReleaseLease | Bury
"""The ways to end a lease."""
