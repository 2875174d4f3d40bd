"""A failsafe: the audit finds a target that differs from the cost of the open operations."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.events import AUDIT_FAIL, AUDIT_PASS, AUDIT_SKIP
from limiters._costs import AnyCost, Costs, plain_cost
from limiters._support.float_error import FLOAT_ERROR


class AuditedCosts(NamedTuple):
    """The costs of batches that were settled, together."""

    estimated: AnyCost = 0
    actual: AnyCost = 0


class Finding(NamedTuple):
    """The result of an audit, with the name of its event."""

    event: str
    message: str = ""


def audit(recorded: AnyCost, counted: AnyCost, *, busy: bool) -> Finding:
    """Compare the target that is recorded with the one that is counted now.

    >>> audit(30, 20, busy=False)
    Finding(event='audit-fail', message='the target was 30 and is set to 20')
    """
    if busy:
        return Finding(AUDIT_SKIP)
    if _agree(recorded, counted):
        return Finding(AUDIT_PASS)
    return Finding(
        AUDIT_FAIL, f"the target was {plain_cost(recorded)} and is set to {plain_cost(counted)}"
    )


def _agree(recorded: AnyCost, counted: AnyCost) -> bool:
    if isinstance(recorded, Costs) and isinstance(counted, Costs):
        return all(_agree(recorded.amount(one), counted.amount(one)) for one in recorded + counted)
    assert isinstance(recorded, (int, float))
    assert isinstance(counted, (int, float))
    return abs(recorded - counted) <= FLOAT_ERROR * max(1.0, counted)
