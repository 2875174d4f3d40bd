"""How a lease ends: each in its own way, many in one call. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.times import Moment, when
from limiters._support.validation import ArgumentError, Seconds

LONGEST_REASON = 1_000
"""Bytes that are kept of why a message is dead."""

EXTEND, RELEASE, UNTOUCHED, DELETE, BURY = range(1, 6)
"""What hold.lua does with a lease."""


class Deed(NamedTuple):
    """What hold.lua is to do with one lease."""

    action: int
    relative: bool = True
    time_ms: int = 0
    why: bytes = b""


@dataclass(frozen=True, slots=True)
class Delete:
    """The message is done."""

    def deed(self) -> Deed:
        """As hold.lua reads it."""
        return Deed(DELETE)


@dataclass(frozen=True, slots=True)
class ReleaseLease:
    """The message is due again `at` a time or after a `delay`; with neither, now. Unless it was
    not `attempted`, the lease counts as an attempt."""

    at: Moment | None = None
    delay: Seconds | None = None
    attempted: bool = True

    def deed(self) -> Deed:
        """As hold.lua reads it."""
        return Deed(RELEASE if self.attempted else UNTOUCHED, *when(self.at, self.delay))


@dataclass(frozen=True, slots=True)
class Bury:
    """The message is dead; the first thousand bytes of the reason are kept."""

    reason: str

    def deed(self) -> Deed:
        """As hold.lua reads it."""
        if not isinstance(self.reason, str):
            raise ArgumentError("reason", self.reason, "be a text")
        why = ids.as_bytes(self.reason)[:LONGEST_REASON].decode("utf-8", "ignore").encode()
        return Deed(BURY, why=why)


Ending = Delete | ReleaseLease | Bury
"""What its holder does with a lease."""
