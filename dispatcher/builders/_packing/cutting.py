"""Cut the measurements of one lane into batches, one timestamp after the other.

Measurements are represented by their positions, since their content does not matter here. `packing`
and `costs` decide which order is best; this module carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dispatcher.builders._packing import costs, packing

Positions = list[int]


class Cutter(Protocol):
    """Cuts positions into `batches`, the open one last."""

    batches: list[Positions]

    def add(self, groups: list[Positions]) -> None:
        """Place the groups of the next timestamp, given in order of arrival."""
        ...

    def add_each(self, positions: Positions) -> None:
        """Place measurements of the next timestamp, each of which is a group of its own."""
        ...

    def add_in_turn(self, positions: Positions) -> None:
        """Place measurements, each of which is the only one of its timestamp."""
        ...


class ByCount:
    """Cuts batches with a maximum number of measurements."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Positions = []
        self.batches: list[Positions] = []

    def add(self, groups: list[Positions]) -> None:
        if len(groups) > 1:
            groups = self._ordered(groups)
        most = self._most
        for group in groups:
            size = len(group)
            if self.batches and len(self._open) + size <= most:
                self._open += group
            elif size <= most:
                self._begin(group)
            else:
                self.add_each(group)

    def add_each(self, positions: Positions) -> None:
        """Place measurements in any order: the open batch is filled, then as many as needed."""
        room = self._most - len(self._open) if self.batches else 0
        self._open += positions[:room]
        for start in range(room, len(positions), self._most):
            self._begin(positions[start : start + self._most])

    add_in_turn = add_each

    def _ordered(self, groups: list[Positions]) -> list[Positions]:
        sizes = list(map(len, groups))
        order = packing.best_order(len(self._open), sizes, self._most)
        return [groups[index] for index in order]

    def _begin(self, group: Positions) -> None:
        self._open = group
        self.batches.append(group)


class ByCost:
    """Cuts batches with a maximum number of measurements and a maximum cost."""

    def __init__(self, limits: costs.BatchLimits, each: Sequence[float]) -> None:
        self._limits = limits
        self._costs = each
        self._state = costs.PackingState(0, 0, 0)
        self.batches: list[Positions] = []

    def add(self, groups: list[Positions]) -> None:
        weighed = [self._weigh(group) for group in groups]
        order: Sequence[int] = range(len(groups))
        if len(groups) > 1:
            order = costs.best_order(self._state, weighed, self._limits)
        for index in order:
            self._place(groups[index], weighed[index])

    def add_each(self, positions: Positions) -> None:
        self.add([[position] for position in positions])

    def add_in_turn(self, positions: Positions) -> None:
        for position in positions:
            self._place([position], self._weigh([position]))

    def _weigh(self, group: Positions) -> costs.CostGroup:
        each = [costs.exact(self._costs[position]) for position in group]
        return costs.CostGroup(each, sum(each))

    def _place(self, positions: Positions, group: costs.CostGroup) -> None:
        limits = self._limits
        if limits.allow(len(positions), group.cost):
            self._append(positions, limits.step(self._state, group))
            return
        for position, cost in zip(positions, group.costs, strict=True):
            self._append([position], limits.step(self._state, costs.CostGroup((cost,), cost)))

    def _append(self, positions: Positions, after: costs.PackingState) -> None:
        if self.batches and after.closed == self._state.closed:
            self.batches[-1] += positions
        else:
            self.batches.append(positions)
        self._state = after
