"""Batches bounded by their cost as well as by their count (laws S1, S4 and S6). Pure.

With two bounds, one order of the groups may leave the open batch with fewer measurements and
another with less cost, and no single number shows which is better. So S6 is ensured in another way
than in `packing`: an order is used only if it leads no further than next-fit's own in *both*
respects, or to fewer batches. From a state that is no further in this sense, next-fit's own order
stays no further; by induction this builder does, too.

Costs are added exactly, as integer multiples of the smallest float: a thousand times 0.1 is neither
more nor less than it should be, whatever the order.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from limiters._support.validation import ArgumentError

_UNIT = 2**1074
_TOO_LARGE = 2**100
"""The limit of the core's costs."""

MOST_GROUPS = 6
"""Maximum number of groups for which the best of all orders is searched."""


class PackingState(NamedTuple):
    """A state of packing: the number of closed batches, and the content of the open one."""

    closed: int
    number: int
    cost: int

    def no_further(self, other: PackingState) -> bool:
        """Whether this state is at least as good as `other`, whatever comes next."""
        if self.closed != other.closed:
            return self.closed < other.closed
        return self.number <= other.number and self.cost <= other.cost


class CostGroup(NamedTuple):
    """Measurements that stay together: their number, and the cost of each."""

    costs: Sequence[int]
    cost: int


class BatchLimits:
    """How much a batch may hold."""

    def __init__(self, most: int, most_cost: float) -> None:
        self.most = most
        self.most_cost = _limit(most_cost)

    def allow(self, count: int, cost: int) -> bool:
        """Whether one batch may hold this much."""
        return count <= self.most and cost <= self.most_cost

    def load(self, count: int, cost: int) -> float:
        """How full a batch is, by the bound that is closer."""
        return max(count / self.most, cost / self.most_cost)

    def step(self, state: PackingState, group: CostGroup) -> PackingState:
        """Return the state after placing `group`."""
        closed, count, cost = state
        size = len(group.costs)
        if self.allow(count + size, cost + group.cost):
            return PackingState(closed, count + size, cost + group.cost)
        if self.allow(size, group.cost):
            return PackingState(closed + 1, size, group.cost)
        for one in group.costs:
            if self.allow(count + 1, cost + one):
                count, cost = count + 1, cost + one
            else:
                closed, count, cost = closed + 1, 1, one
        return PackingState(closed, count, cost)


def best_order(
    state: PackingState, groups: Sequence[CostGroup], limits: BatchLimits
) -> Sequence[int]:
    """The order that leaves the fewest batches, then the emptiest open one, as far as it can be
    found in short time, among those that leave next-fit's own no advantage."""

    def end(order: Iterable[int]) -> PackingState:
        return functools.reduce(lambda at, n: limits.step(at, groups[n]), order, state)

    by_load = [limits.load(len(group.costs), group.cost) for group in groups]
    largest_first = sorted(range(len(groups)), key=by_load.__getitem__, reverse=True)
    came = range(len(groups))
    bound = end(came)
    best: Sequence[int] = came
    reached = bound.closed, limits.load(bound.number, bound.cost)
    for order in (largest_first, *_further_orders(state, groups, limits, largest_first)):
        at = end(order)
        value = at.closed, limits.load(at.number, at.cost)
        if at.no_further(bound) and (value < reached or (best is came and value == reached)):
            best, reached = order, value
    return best


def exact(cost: float) -> int:
    """Return `cost` in the smallest unit."""
    numerator, denominator = cost.as_integer_ratio()
    return numerator * (_UNIT // denominator)


def together(costs: Iterable[float]) -> float:
    """Return the sum of costs; an int if all of them are."""
    costs = list(costs)
    return sum(costs) if set(map(type, costs)) <= {int} else math.fsum(costs)


def checked(cost: object) -> float:
    """Return `cost` if it is a valid cost; otherwise raise ArgumentError."""
    if isinstance(cost, bool) or not isinstance(cost, (int, float)):
        try:
            cost = operator.index(cost)  # type: ignore[arg-type]  # numpy's whole numbers
        except TypeError:
            raise ArgumentError("cost", cost, "be a number") from None
    if not 0 <= cost < _TOO_LARGE:
        raise ArgumentError("cost", cost, "be zero or more and finite")
    return cost


def _limit(most: float) -> int:
    """Return the largest sum that still rounds to `most`, and is no integer above it."""
    near = float(most)
    limit = exact(most) + _UNIT - 1
    if near < 2**53:
        limit = min(limit, exact(most) + (exact(math.nextafter(near, math.inf)) - exact(near)) // 2)
        limit -= limit / _UNIT > most
    return limit


def _further_orders(
    state: PackingState, groups: Sequence[CostGroup], limits: BatchLimits, largest_first: list[int]
) -> Iterator[Sequence[int]]:
    if len(groups) <= MOST_GROUPS:
        yield from _all_worth_a_look(state, groups, limits)
    else:
        yield _largest_that_fits(state, groups, limits, largest_first)


def _largest_that_fits(
    state: PackingState, groups: Sequence[CostGroup], limits: BatchLimits, largest_first: list[int]
) -> Sequence[int]:
    order: list[int] = []
    rest = largest_first
    while rest:
        left = []
        for index in rest:
            after = limits.step(state, groups[index])
            if after.closed == state.closed:
                state = after
                order.append(index)
            else:
                left.append(index)
        if left:
            order.append(left[0])
            state = limits.step(state, groups[left[0]])
        rest = left[1:]
    return order


def _all_worth_a_look(
    state: PackingState, groups: Sequence[CostGroup], limits: BatchLimits
) -> Iterator[Sequence[int]]:
    """Return the orders of the groups that no other order surpasses in every respect."""
    reached: dict[frozenset[int], dict[PackingState, tuple[int, ...]]] = {frozenset(): {state: ()}}
    for _ in groups:
        further: dict[frozenset[int], dict[PackingState, tuple[int, ...]]] = {}
        for placed, states in reached.items():
            for index in range(len(groups)):
                if index not in placed:
                    front = further.setdefault(placed | {index}, {})
                    for at, order in states.items():
                        _keep(front, limits.step(at, groups[index]), (*order, index))
        reached = further
    for front in reached.values():
        yield from front.values()


def _keep(
    front: dict[PackingState, tuple[int, ...]], state: PackingState, order: tuple[int, ...]
) -> None:
    if not any(other.no_further(state) for other in front):
        for worse in [other for other in front if state.no_further(other)]:
            del front[worse]
        front[state] = order
