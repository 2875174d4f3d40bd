"""The audit: a failsafe that finds a target that is not the cost of what is outstanding."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.events import AUDIT_FAIL, AUDIT_PASS, AUDIT_SKIP
from limiters._plain_numbers import plain
from limiters._support.float_error import FLOAT_ERROR


class Finding(NamedTuple):
    """What the audit says, by the name of its event."""

    event: str
    message: str = ""


def audit(recorded: float, counted: float, *, busy: bool) -> Finding:
    """Compares the target that is recorded with the one that is counted now.

    >>> audit(30, 20, busy=False)
    Finding(event='audit-fail', message='the target was 30 and is set to 20')
    """
    if busy:
        return Finding(AUDIT_SKIP)
    if abs(recorded - counted) <= FLOAT_ERROR * max(1.0, counted):
        return Finding(AUDIT_PASS)
    return Finding(AUDIT_FAIL, f"the target was {plain(recorded)} and is set to {plain(counted)}")
