"""Which of several things may go, where those that share a key must go one after the other.

Pure: what may go is returned, and whoever asked sends it and says when it has ended.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class InOrder(Generic[T]):
    """Each thing waits until all that came before it and share a key with it have ended.

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
        """In how many of its lines somebody is before it; of what waits only."""

    def __len__(self) -> int:
        """How many were offered and have not ended."""
        return len(self._keys)

    def offer(self, one: T, keys: Iterable[Hashable]) -> bool:
        """Takes note of `one`. Whether it may go at once."""
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
        """`one`, which went, is over. Those that may go now, in the order they were offered."""
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
        """Those that have not gone, in the order they were offered."""
        return list(self._behind)
