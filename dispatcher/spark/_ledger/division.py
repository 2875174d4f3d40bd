"""How the rows of a micro-batch are divided into batches of several subjects. Pure.

Which subjects share a batch depends on which rows are in one task, on the maxima, and on the rules
of packing. A replay has to divide the rows as the run that began the micro-batch did, even if its
own configuration differs. So the division is stored with the claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.spark._most_cost import UNBOUNDED, MostCost
from dispatcher.spark.errors import ChangedSinkError

PACKING_VERSIONS = {"1": True, "2": False}
"""Versions of the rules in packs.py and packing.py, and whether costs are numbers: in version 2
they have dimensions. Other rules make other packs of the same rows."""
PLAIN = ""
"""A batch holds rows of one subject, so no rules of packing are stored. Versions that could not
pack wrote the same."""


@dataclass(frozen=True, slots=True)
class Division:
    """The facts that decide which subjects share a batch.

    >>> Division(4, 500, MostCost.of(20_000)).written()
    '1 4 500 20000.0'
    >>> Division(4, 500, MostCost.of({"requests": 10, "tokens": 90_000})).written()
    '2 4 500 requests=10.0,tokens=90000.0'
    """

    parts: int
    """The number of tasks that send the rows."""
    most_rows: int
    """The largest number of rows in a batch."""
    most_cost: MostCost = UNBOUNDED
    """The largest cost of the rows of a batch, without the batch's own cost."""

    def written(self) -> str:
        """Return the text that is stored."""
        numbers = self.most_cost.are_numbers
        (version,) = (one for one, of_numbers in PACKING_VERSIONS.items() if of_numbers is numbers)
        return f"{version} {self.parts} {self.most_rows} {self.most_cost.written()}"

    @classmethod
    def read(cls, written: str) -> Division | None:
        """Return the division that `written` stands for; None if it is PLAIN. ChangedSinkError if
        another version wrote it, whose rules this one does not have; ValueError if it is
        damaged."""
        if written == PLAIN:
            return None
        version, *facts = written.split(" ")
        if version not in PACKING_VERSIONS:
            raise ChangedSinkError(
                f"this micro-batch was begun by a version that packs by rules {version}, and this "
                f"one has rules {' and '.join(PACKING_VERSIONS)}: let that version finish it, or "
                "give the sink pack=False, which sends the rest of it by subjects"
            )
        parts, rows, cost = facts
        division = cls(int(parts), int(rows), MostCost.read(cost))
        if division.written() != written or division.parts < 1 or division.most_rows < 1:
            raise ValueError(f"{written[:100]!r} is not as it was written")
        return division
