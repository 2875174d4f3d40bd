"""Who gets how many partitions: weighted max-min, with remainders that rotate. Pure.

Shares are fractions of partitions; partitions are not. Each instance gets its share rounded
down; the partitions left over go to those who are owed most, until others are owed more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from limiters.float_error import FLOAT_ERROR

MEMORY = 20.0
"""Seconds after which what was owed is as good as forgotten."""


class Ask(NamedTuple):
    """What one instance wants: so many partitions, with such a weight."""

    wanted: int
    weight: float = 1.0
    credit: float = 0.0
    """What it is owed now."""
    soon: float = 0.0
    """What it will be owed by its next request, if nothing changes."""


class Shares(NamedTuple):
    """How the partitions are shared; `entitled` says what that means for one instance."""

    level: float
    """An instance's share is its weight times this, or what it wants if that is less."""
    extra: float
    """Who is owed at least this gets a left-over partition."""
    keep: float
    """Who has one keeps it as long as it will be owed at least this by its next request, for it
    is then that it gives it back."""
    last: float
    """Who is owed at least this, and less than `extra`, gets the last one, worth a remainder."""


def share_out(asks: Sequence[Ask], full: int, remainder: float) -> Shares:
    """Shares `full` partitions, and one that is worth only `remainder` of one, among `asks`.

    >>> shares = share_out([Ask(20), Ask(20), Ask(1)], full=20, remainder=0.0)
    >>> shares.level
    9.5
    """
    level = water_level(asks, full + remainder)
    given = 0
    owed, soon = [], []
    for ask in asks:
        share = min(ask.wanted, ask.weight * level)
        floor = math.floor(share + FLOAT_ERROR)
        given += floor
        if share < ask.wanted and share > floor + FLOAT_ERROR:
            owed.append(ask.credit)
            soon.append(ask.soon)
    owed.sort(reverse=True)
    soon.sort(reverse=True)
    left = full - given
    extra = keep = math.inf
    if left > 0 and owed:
        extra, keep = (levels[min(left, len(owed)) - 1] for levels in (owed, soon))
    last = owed[left] if remainder > 0 and 0 <= left < len(owed) else extra
    return Shares(level, extra, keep, last)


def water_level(asks: Sequence[Ask], units: float) -> float:
    """The level up to which everybody is filled; infinite if there is enough for all."""
    rest = [ask for ask in asks if ask.wanted > 0]
    if sum(ask.wanted for ask in rest) <= units:
        return math.inf
    weight = math.fsum(ask.weight for ask in rest)
    level = math.inf
    while rest and weight > 0:
        level = units / weight
        unfilled = [ask for ask in rest if ask.wanted > ask.weight * level]
        if len(unfilled) == len(rest):
            break
        units -= sum(ask.wanted for ask in rest if ask.wanted <= ask.weight * level)
        rest = unfilled
        weight = math.fsum(ask.weight for ask in rest)
    return level


class Entitled(NamedTuple):
    """What one instance may hold."""

    share: float
    full: int
    last: bool


def entitled(shares: Shares, ask: Ask, held: float = 0.0) -> Entitled:
    """What `shares` mean for one who asks and holds as much as `held`.

    >>> shares = share_out([Ask(2), Ask(2, credit=0.1)], full=3, remainder=0.0)
    >>> entitled(shares, Ask(2, credit=0.1)).full, entitled(shares, Ask(2)).full
    (2, 1)
    """
    share = min(ask.wanted, ask.weight * shares.level)
    floor = math.floor(share + FLOAT_ERROR)
    if share >= ask.wanted - FLOAT_ERROR:
        return Entitled(share, ask.wanted, True)
    if share <= floor + FLOAT_ERROR:
        return Entitled(share, floor, False)
    has_one = held >= floor + 1
    extra = ask.soon >= shares.keep if has_one else ask.credit >= shares.extra
    return Entitled(share, floor + extra, not extra and ask.credit >= shares.last)


def credit_after(credit: float, owed: float, seconds: float) -> float:
    """The credit of one who got `owed` partitions less than its share for so long.

    Rounded, so that it does not depend on the order in which sums were made.
    """
    kept = credit * max(0.0, 1.0 - seconds / MEMORY)
    return math.floor((kept + owed * seconds) * 1e6 + 0.5) / 1e6
