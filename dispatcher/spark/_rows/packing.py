"""Decides which subjects share a batch: a bounded first fit by order of input. Pure.

A subject goes whole into the first open pack that has room for it, so that no two packs share one.
If none has room, the next pack is opened; when too many are open, the oldest is closed. Only the
order and the sizes of the subjects decide, so a replay that has the same subjects in the same order
has the same packs. A change of these rules needs another version: see division.py.

Sums are compared, never remainders: so the cost of a pack that fits here, added up in the same
order, is never more than a limit of exactly that size allows.

When a pack is opened, none of the open ones had room for a subject of size s: each pack but the
last one is filled to more than `most - s`. Of subjects of at most 9 % of a batch that makes at most
1.1 times as many packs as there could be, and one more; of larger ones at most twice as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import add, eq, le
from typing import Generic, TypeVar

OPEN_AT_ONCE = 8
"""The largest number of open packs. With more of them packs are fuller, and are sent later."""

Size = tuple[float, ...]
"""A size in each dimension of a batch, such as rows and cost."""

Item = TypeVar("Item")


class Packing(Generic[Item]):
    """Packs items in the order in which they are added.

    >>> packing = Packing[str]((5,))
    >>> [pack for item in ("aaa", "bbb", "cc", "d") for pack in packing.add(item, (len(item),))]
    [['aaa', 'cc']]
    >>> list(packing.rest())
    [['bbb', 'd']]
    """

    def __init__(self, most: Size) -> None:
        self._most = most
        self._open: list[_Pack[Item]] = []

    def fits(self, size: Size) -> bool:
        """Whether an item of this size fits into an empty pack."""
        return all(map(le, size, self._most))

    def add(self, item: Item, size: Size) -> Iterator[list[Item]]:
        """Pack `item`, which must fit, and return the packs that are closed by that."""
        packs = self._open
        for pack in packs:
            filled = tuple(map(add, pack.size, size))
            if self.fits(filled):
                break
        else:
            if len(packs) == OPEN_AT_ONCE:
                yield packs.pop(0).items
            pack, filled = _Pack(), size
            packs.append(pack)
        pack.items.append(item)
        pack.size = filled
        if any(map(eq, filled, self._most)):
            packs.remove(pack)
            yield pack.items

    def rest(self) -> Iterator[list[Item]]:
        """Close all open packs and return them, the oldest first."""
        while self._open:
            yield self._open.pop(0).items


class _Pack(Generic[Item]):
    __slots__ = ("items", "size")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.size: Size = ()
