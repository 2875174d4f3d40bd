"""Windows of one dimension: each longer one has to allow more than the shorter ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from limiters._plain_numbers import plain
from limiters._support import durations
from limiters._support.validation import UNSHOWN, ArgumentError


class NamedWindow(NamedTuple):
    """A window, as people call it."""

    dimension: str
    name: str
    """Such as `requests`, or `requests/1s` for a further window."""
    capacity: float
    period: float
    """The length of the window in seconds."""

    @property
    def amount(self) -> str:
        """The amount and its window, as people write them."""
        return f"{plain(self.capacity)}/{durations.written(self.period)}"


def check_nested(option: str, windows: Iterable[NamedWindow]) -> None:
    """Refuse a shorter window that allows no less than the longer one before it: it would never be
    reached. ArgumentError of `option`, which names both, and says what to do.

    >>> check_nested("capacity", [NamedWindow("a", "a", 9, 60), NamedWindow("a", "a/1s", 10, 1)])
    Traceback (most recent call last):
    limiters._support.validation.ArgumentError: capacity must allow less in a/1s (10/1s) than in a \
(9/60s); a shorter window that allows no less is never reached: change both, as in a=9,a/1s=4.5
    """
    outer: dict[str, NamedWindow] = {}
    for inner in windows:
        longer = outer.get(inner.dimension)
        outer[inner.dimension] = inner
        if longer is None:
            continue
        if inner.period >= longer.period:
            raise ArgumentError(
                option,
                UNSHOWN,
                f"have a shorter window in {inner.name} ({inner.amount}) than in {longer.name} "
                f"({longer.amount})",
                "give all windows of a dimension, the longest first",
            )
        if inner.capacity >= longer.capacity:
            less = plain(longer.capacity / 2)
            raise ArgumentError(
                option,
                UNSHOWN,
                f"allow less in {inner.name} ({inner.amount}) than in {longer.name} "
                f"({longer.amount})",
                "a shorter window that allows no less is never reached: change both, as in "
                f"{longer.name}={plain(longer.capacity)},{inner.name}={less}",
            )
