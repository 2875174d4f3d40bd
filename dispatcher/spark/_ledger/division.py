"""How the rows of a micro-batch are divided into batches of several subjects. Pure.

Which subjects share a batch depends on which rows are in one task, on the maxima, and on the rules
of packing. A replay has to divide the rows as the run did that began the micro-batch, whatever it
is configured to do itself by then: so this is stored with the claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.spark._most_cost import UNBOUNDED, MostCost
from dispatcher.spark.errors import ChangedSinkError

PACKING_VERSIONS = {"1": True, "2": False}
"""Of the rules in packs.py and packing.py, and whether costs are numbers there: by version 2 they
have dimensions. Other rules make other packs of the same rows."""
PLAIN = ""
"""A batch holds rows of one subject: then none of this matters, and nothing of it is stored. So it
was in versions that could not pack."""


@dataclass(frozen=True, slots=True)
class Division:
    """What decides which subjects share a batch.

    >>> Division(4, 500, MostCost.of(20_000)).written()
    '1 4 500 20000.0'
    >>> Division(4, 500, MostCost.of({"requests": 10, "tokens": 90_000})).written()
    '2 4 500 requests=10.0,tokens=90000.0'
    """

    parts: int
    """In how many tasks the rows are sent."""
    most_rows: int
    """In a batch."""
    most_cost: MostCost = UNBOUNDED
    """Of the rows of a batch, what a batch costs by itself left out."""

    def written(self) -> str:
        """It, as it is stored."""
        numbers = self.most_cost.are_numbers
        (version,) = (one for one, of_numbers in PACKING_VERSIONS.items() if of_numbers is numbers)
        return f"{version} {self.parts} {self.most_rows} {self.most_cost.written()}"

    @classmethod
    def read(cls, written: str) -> Division | None:
        """The division that `written` is; None if it is PLAIN. ChangedSinkError if another version
        has written it, whose packs are not known here; ValueError if it is damaged."""
        if written == PLAIN:
            return None
        version, *facts = written.split(" ")
        if version not in PACKING_VERSIONS:
            raise ChangedSinkError(
                f"this micro-batch was begun by a version that packs by rules {version}, and this "
                f"one knows rules {' and '.join(PACKING_VERSIONS)}: let that version finish it, or "
                "give the sink pack=False, which sends the rest of it by subjects"
            )
        parts, rows, cost = facts
        division = cls(int(parts), int(rows), MostCost.read(cost))
        if division.written() != written or division.parts < 1 or division.most_rows < 1:
            raise ValueError(f"{written[:100]!r} is not as it was written")
        return division
