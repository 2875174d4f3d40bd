"""Judges the notes of handlers under a fault: a row of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from limiters.limits import Limits
from tests.acceptance.spark_runs import Notes

CAPACITY = 4_000.0


@dataclass(frozen=True)
class Played:
    """A row of the table."""

    fault: str
    rows: int
    lost: int
    twice: int
    """How many rows were sent more than once."""
    out_of_order: int
    wrong: tuple[str, ...]
    """Everything that is wrong, in words."""

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def judged(
    fault: str,
    notes: Notes,
    expected: Mapping[str, int],
    *,
    again: int,
    failed: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> Played:
    """Judge the `notes` of a stream with so many rows of each subject, of which `again` batches may
    have been sent a second time. `failed` has what the fault itself found wrong, `limits` are those
    of several dimensions."""
    sent_again = len(notes.sent_again)
    lost, out_of_order = notes.lost(expected), len(notes.out_of_order())
    problems = {
        "rows are lost": lost,
        "batches began out of order": out_of_order,
        "batches were in flight with another one of their subject": len(notes.at_once()),
        f"batches were sent again, of which {again} may be": max(0, sent_again - again),
        "subjects were packed in another way in a replay": len(notes.packed_otherwise()),
        "batches were called late": sum(one.late for one in notes.all),
        "seconds were over the limit": notes.verdict(CAPACITY).over,
    }
    if limits is not None and not (verdict := notes.verdict_on(limits)).holds:
        failed += (str(verdict),)
    return Played(
        fault,
        rows=sum(expected.values()),
        lost=lost,
        twice=notes.rows_sent_again(),
        out_of_order=out_of_order,
        wrong=(*failed, *(f"{number} {what}" for what, number in problems.items() if number)),
    )
