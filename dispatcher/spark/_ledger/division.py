"""How the rows of a micro-batch are divided into batches of several subjects. Pure.

Which subjects share a batch depends on which rows are in one task, on the maxima, and on the rules
of packing. A replay has to divide the rows as the run did that began the micro-batch, whatever it
is configured to do itself by then: so this is stored with the claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.spark.errors import ChangedSinkError

PACKING_VERSION = 1
"""Of the rules in packs.py and packing.py. Others make other packs of the same rows."""
PLAIN = ""
"""A batch holds rows of one subject: then none of this matters, and nothing of it is stored. So it
was in versions that could not pack."""


@dataclass(frozen=True, slots=True)
class Division:
    """What decides which subjects share a batch.

    >>> Division(4, 500, 20_000.0).written()
    '1 4 500 20000.0'
    """

    parts: int
    """In how many tasks the rows are sent."""
    most_rows: int
    """In a batch."""
    most_cost: float | None
    """Of a batch. None: a batch may cost anything."""

    @classmethod
    def within(cls, parts: int, most_rows: int, *costs: float | None) -> Division:
        """One whose batches cost no more than any of `costs` that is not None."""
        bounds = (cost for cost in costs if cost is not None)
        return cls(parts, most_rows, min(bounds, default=None))

    def written(self) -> str:
        """It, as it is stored."""
        cost = "-" if self.most_cost is None else repr(float(self.most_cost))
        return f"{PACKING_VERSION} {self.parts} {self.most_rows} {cost}"

    @classmethod
    def read(cls, written: str) -> Division | None:
        """The division that `written` is; None if it is PLAIN. ChangedSinkError if another version
        has written it, whose packs are not known here; ValueError if it is damaged."""
        if written == PLAIN:
            return None
        version, *facts = written.split(" ")
        if version != str(PACKING_VERSION):
            raise ChangedSinkError(
                f"this micro-batch was begun by a version that packs by rules {version}, and this "
                f"one knows rules {PACKING_VERSION}: let that version finish it, or give the sink "
                "pack=False, which sends the rest of it by subjects"
            )
        parts, rows, cost = facts
        division = cls(int(parts), int(rows), None if cost == "-" else float(cost))
        if division.written() != written or division.parts < 1 or division.most_rows < 1:
            raise ValueError(f"{written[:100]!r} is not as it was written")
        return division
