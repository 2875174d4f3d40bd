"""What is remembered from one look at a limit to the next. Pure: it is told the time."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field

from limiters.leases import LimitView, MemberView, ranges

LETTERS = string.ascii_uppercase + string.digits
ANY = "*"
"""The letter of all who come when the letters are used up."""

ROUNDING = 1e-6


@dataclass(slots=True)
class Memory:
    """Who has which letter, and since when who has been short of its fair share."""

    letters: dict[str, str] = field(default_factory=dict)
    short_since: dict[str, float] = field(default_factory=dict)

    def observe(self, view: LimitView, now: float) -> None:
        """Who is there keeps its letter; who is gone leaves it to others."""
        present = sorted(view.members, key=lambda member: (member.label, member.instance))
        here = {member.instance for member in present}
        self.letters = {it: letter for it, letter in self.letters.items() if it in here}
        free = [letter for letter in LETTERS if letter not in self.letters.values()]
        for member in present:
            if member.instance not in self.letters:
                self.letters[member.instance] = free.pop(0) if free else ANY
        short = {member.instance for member in present if is_short(member)}
        self.short_since = {it: self.short_since.get(it, now) for it in short}

    def starving(self, view: LimitView, now: float) -> dict[str, float]:
        """For how long who has been short, for longer than a new grant takes at worst: until the
        leases of others end, and a period has passed."""
        patience = (view.terms.lease_ms + view.terms.period_ms) / 1000
        lasting = {it: now - since for it, since in self.short_since.items()}
        return {it: long for it, long in lasting.items() if long >= patience}

    def in_order(self, members: Sequence[MemberView]) -> list[MemberView]:
        """The members by letter."""
        order = LETTERS + ANY
        return sorted(members, key=lambda it: (order.index(self.letters[it.instance]), it.label))


def is_short(member: MemberView) -> bool:
    """Whether it wants more than it holds, and holds less than its fair share."""
    if member.evicted or member.lease_ms <= 0 or not member.need:
        return False
    return ranges.count(member.held) < int(member.share + ROUNDING)
