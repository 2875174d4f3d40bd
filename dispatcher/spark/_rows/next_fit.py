"""Batches that are bounded in several dimensions of cost, filled in the order of their rows. Pure.

SubjectBuilder adds up one cost, and looks for the best order of the subjects of a timestamp. With
several dimensions no order is the best: here each group goes into the open batch if all of it fits,
else it opens the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add, le
from typing import TypeVar

from dispatcher.spark._rows.packing import Size

Item = TypeVar("Item")


def next_fit(
    groups: Iterable[Sequence[Item]], size_of: Callable[[Item], Size], most: Size
) -> Iterator[list[Item]]:
    """Return the batches of `groups`. The items of a group stay together, unless they alone exceed
    a batch: then they are placed one by one. An item that exceeds a batch has one of its own.

    >>> list(next_fit(["aa", "bb", "ccccc"], lambda letter: (1,), (3,)))
    [['a', 'a'], ['b', 'b', 'c'], ['c', 'c', 'c'], ['c']]
    """
    batch: list[Item] = []
    filled: Size = ()
    for group in groups:
        parts: Iterable[Sequence[Item]] = [group]
        if len(group) > 1 and not _fits(_total(group, size_of), most):
            parts = [[item] for item in group]
        for part in parts:
            size = _total(part, size_of)
            after = tuple(map(add, filled, size))
            if batch and not _fits(after, most):
                yield batch
                batch = []
            filled = after if batch else size
            batch += part
    if batch:
        yield batch


def _fits(size: Size, most: Size) -> bool:
    return all(map(le, size, most))


def _total(items: Sequence[Item], size_of: Callable[[Item], Size]) -> Size:
    first, *others = map(size_of, items)
    for other in others:
        first = tuple(map(add, first, other))
    return first
