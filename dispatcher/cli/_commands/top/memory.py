"""State of `dispatcher top` between two views of a limit. Pure: times are arguments."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dispatcher.cli._text.wording import asks_for_permit
from limiters.leases import InstanceView, LimitView
from limiters.leases.protocol import BoundView, HoldingView

LETTERS = string.ascii_uppercase + string.digits
ANY = "*"
"""The letter of further instances when all letters are in use."""

FED = 0.5
"""An instance that spends this part of its fair share and waits for one batch more does not starve:
a share is rounded down to whole batches, to half of it at worst."""

SHORT = 0.9
"""An instance that holds less than this part of its fair share is short: smaller differences are
not moved."""


@dataclass(slots=True)
class Memory:
    """The letter of each instance, and since when it has been short of its fair share."""

    letters: dict[str, str] = field(default_factory=dict)
    short_since: dict[str, float] = field(default_factory=dict)

    def observe(self, view: LimitView, now: float) -> None:
        """Update the letters: an instance keeps its letter; those of instances that are gone become
        free."""
        present = sorted(view.instances, key=lambda one: (one.label, one.instance))
        here = {one.instance for one in present}
        self.letters = {it: letter for it, letter in self.letters.items() if it in here}
        free = [letter for letter in LETTERS if letter not in self.letters.values()]
        for one in present:
            if one.instance not in self.letters:
                self.letters[one.instance] = free.pop(0) if free else ANY
        short = {one.instance for one in present if is_short(one)}
        self.short_since = {it: self.short_since.get(it, now) for it in short}

    def starving(self, view: LimitView, now: float) -> dict[str, float]:
        """Return for how long each instance has had too little, beyond the time that a new grant
        takes at worst: until the leases of others end, and a period has passed; for one that waits
        for a permit also the time in which its fair share makes up its cost."""
        longest = max(one.terms.period for one in view.bounds)
        patience = (view.terms.lease + longest) / 1000
        lasting = {it: now - since for it, since in self.short_since.items()}
        found = {it: long for it, long in lasting.items() if long >= patience}
        for one in view.instances:
            if _is_fed(view, one):
                continue
            if waits_for_permit(one) and one.waits_ms / 1000 >= patience + _saving(view, one):
                found[one.instance] = one.waits_ms / 1000
        return found

    def in_order(self, instances: Sequence[InstanceView]) -> list[InstanceView]:
        """Return the instances by letter."""
        order = LETTERS + ANY
        return sorted(instances, key=lambda it: (order.index(self.letters[it.instance]), it.label))


def _is_fed(view: LimitView, one: InstanceView) -> bool:
    """Whether its share is worth what it waits for, and it spends that."""
    return all(
        worth >= holding.waits_for and holding.spent >= FED * worth > 0
        for holding, _, worth in _waited_for(view, one)
    )


def _saving(view: LimitView, one: InstanceView) -> float:
    """Seconds in which its fair share makes up the cost of the permit for which it waits."""
    return max(
        bound.terms.period / 1000 * holding.waits_for / worth if worth > 0 else float("inf")
        for holding, bound, worth in _waited_for(view, one)
    )


def _waited_for(
    view: LimitView, one: InstanceView
) -> Iterator[tuple[HoldingView, BoundView, float]]:
    """Yield each bound of the permit for which it waits, and what its fair share of it is worth."""
    for holding, bound in zip(one.bounds, view.bounds, strict=True):
        if holding.waits_for > 0:
            yield holding, bound, holding.share * bound.capacity


def waits_for_permit(one: InstanceView) -> bool:
    """Whether it waits for a permit."""
    return asks_for_permit(one) and not one.evicted and one.lease_ms > 0


def is_short(one: InstanceView) -> bool:
    """Whether it wants more than it holds, and holds less than its fair share. An instance with
    permits may hold less, or nothing."""
    if one.evicted or one.lease_ms <= 0 or asks_for_permit(one):
        return False
    return not any(it.permit for it in one.bounds) and any(map(is_short_of, one.bounds))


def is_short_of(holding: HoldingView) -> bool:
    """Whether that is so of one bound."""
    return holding.need > 0 and holding.held < SHORT * holding.share
