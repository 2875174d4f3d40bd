"""Choose the order in which the groups of one timestamp go into batches (laws S4 and S6). Pure.

A group is what must stay together: the measurements of one subject. Groups are placed one after the
other: into the open batch if there is room, otherwise into a new one; a group that is larger than
any batch fills the open batch and then as many as it needs.

The result is measured by one number, the *position*: the room of all batches up to the open one,
less what is left in that. A smaller position means fewer batches, or as many with an emptier last
one: exactly what S4 asks for.

Why S6 holds: for any group, `step` never leads from a smaller position to a larger one than from a
larger position. So a builder that is no further than next-fit before a timestamp, and then takes
next-fit's own order, is no further after it. `best_order` takes that order or one that leads less
far, each time.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod

Order = Sequence[int]
"""Indices of groups, in the order in which they are placed."""

MOST_STATES = 256
"""Maximum number of partial placements that `exact` examines."""

MOST_GROUPS = 256
"""With more groups `largest_that_fits` leaves next to nothing, and `fullest` takes long."""


def step(position: int, size: int, most: int) -> int:
    """Return the position after a group of `size` was placed."""
    room = -position % most
    if size <= room or size > most:
        return position + size
    return position + room + size


def walk(position: int, sizes: Sequence[int], order: Order, most: int) -> int:
    """Return the position after the groups were placed in this order."""
    for index in order:
        position = step(position, sizes[index], most)
    return position


def best_order(fill: int, sizes: Sequence[int], most: int) -> Order:
    """Return the order that leads to the least position, for an open batch that holds `fill`.

    Largest first, unless another is better. It is the best of all orders where a bound proves it,
    and for few groups (see `MOST_STATES`); otherwise it is the best of those tried.

    >>> best_order(1, [2, 1, 3], most=3)
    (0, 2, 1)
    """
    best = largest_first(sizes)
    reached = walk(fill, sizes, best, most)
    least = fill + sum(sizes)
    if reached == least:
        return best
    if max(sizes) <= most:
        least += spare(-fill % most, sizes)
    for candidate in _candidates(sizes):
        if reached == least:
            break
        order = candidate(fill, sizes, most)
        if (end := walk(fill, sizes, order, most)) < reached:
            best, reached = order, end
    return best


def largest_first(sizes: Sequence[int]) -> Order:
    """Return the order that S4 starts from; equal groups in order of arrival."""
    return tuple(sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True))


def as_they_came(fill: int, sizes: Sequence[int], most: int) -> Order:
    """Return the order of next-fit."""
    return range(len(sizes))


def largest_that_fits(fill: int, sizes: Sequence[int], most: int) -> Order:
    """Put into each batch the largest group that still fits, repeatedly."""
    rest = list(largest_first(sizes))[::-1]
    ascending = [sizes[index] for index in rest]
    batches: list[list[int]] = [[]]
    room = -fill % most
    while rest:
        at = bisect_right(ascending, room) - 1
        if ascending[-1] > most:  # it fits in no batch, and leaves no gap
            room, at = -(ascending[-1] - room) % most, len(rest) - 1
        elif at < 0:
            batches.append([])
            room = most
            continue
        else:
            room -= ascending[at]
        del ascending[at]
        batches[-1].append(rest.pop(at))
    return _emptiest_last(batches, sizes)


def fullest(fill: int, sizes: Sequence[int], most: int) -> Order:
    """Make each batch as full as possible: the open one first, then one around each of the largest
    remaining groups."""
    rest = list(largest_first(sizes))
    huge = [index for index in rest if sizes[index] > most]
    rest = rest[len(huge) :]
    room = -(fill + sum(sizes[index] for index in huge)) % most
    batches = [huge + _take_fullest(room, rest, sizes)]
    while rest:
        largest = rest.pop(0)
        batches.append([largest, *_take_fullest(most - sizes[largest], rest, sizes)])
    return _emptiest_last(batches, sizes)


def spare(room: int, sizes: Sequence[int]) -> int:
    """Return what stays free of `room`, with the groups that fill it best."""
    reachable = 1
    for size in sizes:
        reachable |= reachable << size & (2 << room) - 1
    return room + 1 - reachable.bit_length()


def exact(fill: int, sizes: Sequence[int], most: int) -> Order:
    """Return the best of all orders."""
    places: dict[int, list[int]] = {}
    for index in reversed(range(len(sizes))):
        places.setdefault(sizes[index], []).append(index)
    ordered = _exact_sizes(fill, tuple(sorted(sizes, reverse=True)), most)
    return tuple(places[size].pop() for size in ordered)


@functools.lru_cache(maxsize=4096)
def _exact_sizes(fill: int, sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Search by how many groups of each size were placed: since `step` is monotone, of all ways to
    have placed the same groups only the best one matters."""
    kinds: list[tuple[int, int, int]] = []  # size, number of such groups, weight in the index
    unit = 1
    for size, count in sorted(Counter(sizes).items(), reverse=True):
        kinds.append((size, count + 1, unit))
        unit *= count + 1
    reached = {0: (fill, 0)}  # index: a number whose digits are how many of each were placed
    for placed in range(unit):
        position = reached[placed][0]
        for size, base, worth in kinds:
            if placed // worth % base < base - 1:
                end = step(position, size, most)
                known = reached.get(placed + worth)
                if known is None or end < known[0]:
                    reached[placed + worth] = end, size
    worths = {size: worth for size, _, worth in kinds}
    order = []
    placed = unit - 1
    while placed:
        order.append(reached[placed][1])
        placed -= worths[order[-1]]
    return tuple(order[::-1])


def _candidates(sizes: Sequence[int]) -> tuple[Callable[[int, Sequence[int], int], Order], ...]:
    """Return the orders to try after largest first. Next-fit's own order is among them, or
    surpassed."""
    if len(sizes) > MOST_GROUPS:
        return largest_that_fits, as_they_came
    if prod(count + 1 for count in Counter(sizes).values()) > MOST_STATES:
        return fullest, largest_that_fits, as_they_came
    return fullest, exact


def _take_fullest(room: int, rest: list[int], sizes: Sequence[int]) -> list[int]:
    """Move the groups that fill `room` best out of `rest`, large ones rather than small."""
    reachable = [1]
    for index in rest:
        reachable.append(reachable[-1] | reachable[-1] << sizes[index] & (2 << room) - 1)
        if reachable[-1] >> room:
            break
    target = reachable[-1].bit_length() - 1
    taken = []
    for at in reversed(range(len(reachable) - 1)):
        if not reachable[at] >> target & 1:
            target -= sizes[rest[at]]
            taken.append(rest.pop(at))
    return taken[::-1]


def _emptiest_last(batches: list[list[int]], sizes: Sequence[int]) -> Order:
    """Return the order that makes these batches. The first stays first: it is the open one."""
    if len(batches) > 2:
        at = min(
            range(len(batches) - 1, 0, -1), key=lambda n: sum(sizes[index] for index in batches[n])
        )
        batches.append(batches.pop(at))
    return tuple(index for batch in batches for index in batch)
