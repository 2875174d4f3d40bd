"""What is remembered of a sequence: a subject's batches, or a lane's. Pure.

A replay of a micro-batch has the same rows in the same order, so that how many of a sequence's
rows were acknowledged says which: the first ones. A digest proves that they are. The time up to
which it was sent says which
rows of a later micro-batch come too late; as it was before this micro-batch, so that a replay
finds the same rows late.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.spark._ledger.proof import NONE

_MOST_SHOWN = 100

Time = int | float
"""The time of a row: microseconds since 1970, days since then, or the number that it is."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What is remembered of one sequence.

    >>> entry = LedgerEntry.read(b"7 3 1000 2000 c0ffee")
    >>> entry.acknowledged(7), entry.sent_before(7)
    (3, 1000)
    >>> entry.acknowledged(8), entry.sent_before(8)
    (0, 2000)
    """

    batch: int = -1
    rows: int = 0
    """How many of its rows were acknowledged in this micro-batch."""
    before: Time | None = None
    """Up to which time it was sent before this micro-batch."""
    until: Time | None = None
    """Up to which time it was sent."""
    proof: bytes = NONE
    """The digest of the rows that were acknowledged in this micro-batch."""

    @classmethod
    def read(cls, written: bytes | None) -> LedgerEntry:
        """The entry that `written` is. ValueError if it is none."""
        if written is None:
            return cls()
        batch, rows, before, until, proof = written.split(b" ")
        entry = cls(int(batch), int(rows), _time(before), _time(until), proof)
        if entry.rows < 0 or entry.written() != written:
            raise ValueError(f"{written[:_MOST_SHOWN]!r} is not as it was written")
        return entry

    def written(self) -> bytes:
        """It, as it is kept in Redis."""
        times = _text(self.before), _text(self.until)
        return b"%d %d %s %s %s" % (self.batch, self.rows, *times, self.proof)

    def acknowledged(self, batch: int) -> int:
        """How many of its rows were acknowledged in micro-batch `batch`."""
        return self.rows if self.batch == batch else 0

    def sent_before(self, batch: int) -> Time | None:
        """Up to which time it was sent before micro-batch `batch`."""
        return self.before if self.batch == batch else self.until


def _time(text: bytes) -> Time | None:
    if text == b"-":
        return None
    return float(text) if b"." in text or b"e" in text or b"n" in text else int(text)


def _text(time: Time | None) -> bytes:
    return b"-" if time is None else repr(time).encode()
