"""What a handler is told besides its rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Context:
    """One batch on its way, for a handler that takes a second argument.

    `first` and `last` are its earliest and its latest time: an aware datetime for a timestamp,
    one without a zone for a timestamp_ntz, a date, or the number that it is. None of rows that
    have no time.
    """

    query: str
    batch_id: int
    """The micro-batch."""
    subject: Any
    """Whose rows they are; the lane's name, with order="global"."""
    first: datetime | date | float | None
    last: datetime | date | float | None
    key: str
    """The same each time this batch is sent, whoever sends it: hand it on, if the API knows
    idempotency keys. Rows that are sent in no order are not the same batches in a replay: there
    it is the same for each attempt of the Batcher only."""
    attempt: int
    """1, and 2 when it is tried again by the Batcher."""
    late: bool = False
    """Whether later rows of the subject were sent already."""
    reason: str = ""
    """For a handler of dead letters: why."""


def key_of(*facts: object) -> str:
    """A key that says who, what and when, the same wherever it is reckoned.

    >>> key_of("orders", 7, "meter-1") == key_of("orders", 7, "meter-1")
    True
    """
    told = "\x1f".join(map(repr, facts)).encode()
    return hashlib.blake2b(told, digest_size=16).hexdigest()
