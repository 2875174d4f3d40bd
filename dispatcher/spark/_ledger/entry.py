"""The entry of a sequence in the ledger. A sequence is the rows of a subject, or of a lane. Pure.

A replay of a micro-batch has the same rows in the same order. So the number of a sequence's
acknowledged rows says which they are: the first ones; a digest proves it. The time up to which a
sequence was sent says which rows of a later micro-batch are late. The entry also keeps that time as
it was before this micro-batch, so that a replay finds the same rows late.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.spark._ledger.proof import NONE

_MOST_SHOWN = 100

Time = int | float
"""The time of a row: microseconds since 1970, days since then, or the number that it is."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The entry of one sequence.

    >>> entry = LedgerEntry.read(b"7 3 1000 2000 c0ffee")
    >>> entry.acknowledged(7), entry.sent_before(7)
    (3, 1000)
    >>> entry.acknowledged(8), entry.sent_before(8)
    (0, 2000)
    """

    batch: int = -1
    rows: int = 0
    """The number of its rows that are acknowledged in micro-batch `batch`."""
    before: Time | None = None
    """The latest time that was sent before micro-batch `batch`."""
    until: Time | None = None
    """The latest time that was sent."""
    proof: bytes = NONE
    """The digest of the rows that are acknowledged in micro-batch `batch`."""

    @classmethod
    def read(cls, written: bytes | None) -> LedgerEntry:
        """Return the entry that `written` stands for. ValueError if it is damaged."""
        if written is None:
            return cls()
        batch, rows, before, until, proof = written.split(b" ")
        entry = cls(int(batch), int(rows), _time(before), _time(until), proof)
        if entry.rows < 0 or entry.written() != written:
            raise ValueError(f"{written[:_MOST_SHOWN]!r} is not as it was written")
        return entry

    def written(self) -> bytes:
        """Return the bytes that Redis keeps."""
        times = _text(self.before), _text(self.until)
        return b"%d %d %s %s %s" % (self.batch, self.rows, *times, self.proof)

    def acknowledged(self, batch: int) -> int:
        """Return how many of its rows are acknowledged in micro-batch `batch`."""
        return self.rows if self.batch == batch else 0

    def sent_before(self, batch: int) -> Time | None:
        """Return the latest time that was sent before micro-batch `batch`."""
        return self.before if self.batch == batch else self.until


def _time(text: bytes) -> Time | None:
    if text == b"-":
        return None
    return float(text) if b"." in text or b"e" in text or b"n" in text else int(text)


def _text(time: Time | None) -> bytes:
    return b"-" if time is None else repr(time).encode()
