"""Order of things that share keys: those with a common key go one after the other.

Pure: methods return what may go; the caller sends it and reports when it has ended.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class InOrder(Generic[T]):
    """Each thing waits until all earlier ones that share a key with it have ended.

    >>> order = InOrder[str]()
    >>> order.offer("first", "ab"), order.offer("second", "bc"), order.offer("third", "d")
    (True, False, True)
    >>> order.ended("first")
    ['second']
    """

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[T]] = {}
        self._keys: dict[T, tuple[Hashable, ...]] = {}
        self._numbers: dict[T, int] = {}
        self._next = itertools.count()
        self._behind: dict[T, int] = {}
        """For each waiting thing, the number of its keys for which an earlier one has not ended."""

    def __len__(self) -> int:
        """Number of things that were offered and have not ended."""
        return len(self._keys)

    def offer(self, one: T, keys: Iterable[Hashable]) -> bool:
        """Add `one`. Return whether it may go now."""
        self._keys[one] = tuple(dict.fromkeys(keys))
        self._numbers[one] = next(self._next)
        behind = 0
        for key in self._keys[one]:
            line = self._lines.setdefault(key, deque())
            behind += bool(line)
            line.append(one)
        if behind:
            self._behind[one] = behind
        return not behind

    def ended(self, one: T) -> list[T]:
        """Mark `one` as ended. Return those that may go now, in the order they were offered."""
        freed = []
        for key in self._keys.pop(one):
            line = self._lines[key]
            line.popleft()
            if not line:
                del self._lines[key]
                continue
            self._behind[line[0]] -= 1
            if not self._behind[line[0]]:
                del self._behind[line[0]]
                freed.append(line[0])
        freed.sort(key=self._numbers.__getitem__)
        del self._numbers[one]
        return freed

    def waiting(self) -> list[T]:
        """Things that may not go yet, in the order they were offered."""
        return list(self._behind)
