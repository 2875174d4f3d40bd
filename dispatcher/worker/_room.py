"""How many messages to lease now: what the free slots and the budget can use soon. Pure.

What is leased and waits is nobody else's. So a worker takes no more than it can begin within a
moment, and the rest of its demand it only tells the limiter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from limiters._costs import AnyCost, Costs

AHEAD = 0.5
"""For how many seconds of work a worker leases ahead."""

FEW = 10
"""How many it leases while it does not know what they cost, or may spend nothing at all: enough
to ask for capacity with."""


@dataclass(frozen=True, slots=True)
class View:
    """What the worker sees at a moment."""

    slots: int
    """How many batches may run at once, without those that hang."""
    running: int
    batch_size: int
    waiting: int
    """Messages that are leased and have not begun."""
    settling: int = 0
    """Messages that have ended and are not yet deleted or released."""
    batch_time: float | None = None
    """How long a batch takes, as far as is known."""
    capacity: AnyCost | None = None
    """What may be spent in a period; None if there is no limit."""
    speed: AnyCost = math.inf
    """How much of it comes in a second."""
    mean_cost: AnyCost | None = 1.0
    batch_cost: AnyCost = 0
    due: int = 0
    """How many messages are due and not leased, as far as is known."""


def to_lease(view: View) -> int:
    """How many to lease now, a batch at most, so that work begins while more is leased.

    >>> to_lease(View(slots=4, running=0, batch_size=100, waiting=0))
    100
    >>> to_lease(View(slots=4, running=0, batch_size=100, waiting=0, capacity=60, speed=60))
    30
    >>> to_lease(View(slots=4, running=4, batch_size=100, waiting=0, batch_time=60))
    0
    """
    room = min(_room_in_slots(view), _budget_soon(view) - view.waiting)
    return max(0, int(min(room, view.batch_size)))


def claim(view: View) -> AnyCost:
    """The cost of what is due and not leased, as far as free slots could use it: the limiter's
    shares follow the demand (law C5)."""
    messages = max(0, min(view.due, _room_in_slots(view)))
    if view.capacity is None or view.mean_cost is None or not messages:
        return 0.0
    return view.mean_cost * messages + view.batch_cost * math.ceil(messages / view.batch_size)


def _room_in_slots(view: View) -> int:
    """How many more messages free slots could hold. What is being settled takes room as well: a
    handler that is faster than its messages can be settled would otherwise pile them up."""
    return _slots_soon(view) * view.batch_size - view.waiting - view.settling


def _slots_soon(view: View) -> int:
    """Those that are free, and those that will be."""
    soon = 0.0
    if view.batch_time is not None:
        soon = view.running * min(1.0, AHEAD / max(view.batch_time, AHEAD))
    return max(0, view.slots - view.running + int(soon)) if view.slots > 0 else 0


def _budget_soon(view: View) -> float:
    if view.capacity is None or (view.mean_cost is not None and not view.mean_cost):
        return math.inf
    if view.mean_cost is None or not view.capacity:
        return FEW
    # One is leased even if it takes longer to gather its cost: else it would never be.
    return max(1.0, _paid_soon(view.capacity, view.speed, view.mean_cost))


def _paid_soon(capacity: AnyCost, speed: AnyCost, cost: AnyCost) -> float:
    """How often `cost` can be paid for within `AHEAD`."""
    if isinstance(cost, Costs) and isinstance(capacity, Costs) and isinstance(speed, Costs):
        # What does not come by time is there at once.
        return min(
            _paid_soon(capacity.amount(name), speed.get(name, math.inf), one)
            for name, one in cost.items()
        )
    soon: float = min(capacity, speed * AHEAD)
    return soon / cost
