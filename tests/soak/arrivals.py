"""What has arrived at the store, and what is wrong with it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.soak.handlers import DUE, EARLY, IN_ORDER, TOGETHER

Row = tuple[str, int]

PATHS = {EARLY: "in order", IN_ORDER: "in order", TOGETHER: "by event time", DUE: "when due"}
"""On which of the ways each of them sends: a row has to arrive once on each way that it takes."""


class Arrivals:
    """Taken in one after the other, as they came.

    >>> arrivals = Arrivals()
    >>> arrivals.take(IN_ORDER, [("a", 1), ("a", 2)])
    >>> arrivals.take(IN_ORDER, [("a", 2), ("a", 5)])  # 2 is sent again, which is no disorder
    >>> arrivals.take(IN_ORDER, [("a", 3)])
    >>> len(arrivals.rows["in order"]), arrivals.again[IN_ORDER], arrivals.out_of_order
    (4, 1, ['subject sink: 3 of a came after 5'])
    """

    def __init__(self) -> None:
        self.rows: dict[str, set[Row]] = {path: set() for path in PATHS.values()}
        """What came on each way, however often."""
        self.firsts: Counter[str] = Counter()
        """How much of it came from whom."""
        self.again: Counter[str] = Counter()
        """What came although it had come before, by who sent it."""
        self.late: Counter[str] = Counter()
        """What was said to be late, which nothing ought to be."""
        self.out_of_order: list[str] = []
        self._latest: dict[tuple[str, str], int] = {}

    def take(self, who: str, rows: Sequence[Sequence[Any]], late: bool = False) -> None:
        """One request: who sent it, and whose numbers it held."""
        here = self.rows[PATHS[who]]
        for owner, number in rows:
            if (owner, number) in here:
                self.again[who] += 1
                continue
            here.add((owner, number))
            self.firsts[who] += 1
            self.late[who] += late
            if who != DUE:
                self._follow(who, owner, number)

    def _follow(self, who: str, owner: str, number: int) -> None:
        latest = self._latest.get((who, owner), -1)
        if number < latest:
            self.out_of_order.append(f"{who}: {number} of {owner} came after {latest}")
        self._latest[who, owner] = max(latest, number)
