"""The rows that have arrived at the store, and what is wrong with them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.soak.handlers import DUE, EARLY, IN_ORDER, TOGETHER

Row = tuple[str, int]

PATHS = {EARLY: "in order", IN_ORDER: "in order", TOGETHER: "by event time", DUE: "when due"}
"""The way of each sender: a row has to arrive once on each way that it takes."""


class Arrivals:
    """The requests that arrive, one after the other.

    >>> arrivals = Arrivals()
    >>> arrivals.take(IN_ORDER, [("a", 1), ("a", 2)])
    >>> arrivals.take(IN_ORDER, [("a", 2), ("a", 5)])  # 2 is sent again, which is no disorder
    >>> arrivals.take(IN_ORDER, [("a", 3)])
    >>> len(arrivals.rows["in order"]), arrivals.again[IN_ORDER], arrivals.out_of_order
    (4, 1, ['subject sink: 3 of a came after 5'])
    """

    def __init__(self) -> None:
        self.rows: dict[str, set[Row]] = {path: set() for path in PATHS.values()}
        """The rows that came on each way, counted once."""
        self.firsts: Counter[str] = Counter()
        """How many of these rows came from each sender."""
        self.again: Counter[str] = Counter()
        """How many rows came again, by sender."""
        self.late: Counter[str] = Counter()
        """How many rows were marked as late, which should not happen."""
        self.out_of_order: list[str] = []
        self._latest: dict[tuple[str, str], int] = {}

    def take(self, who: str, rows: Sequence[Sequence[Any]], late: bool = False) -> None:
        """Note one request: its sender, and the numbers of its rows."""
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
