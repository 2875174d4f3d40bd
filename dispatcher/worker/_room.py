"""How many messages to lease now: as many as the free slots and the budget can use soon. Pure.

No other worker can get a message that is leased and waits. So a worker leases only what it can
begin within a moment, and reports the rest of its demand to the limiter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from limiters._costs import AnyCost, Costs

AHEAD = 0.5
"""Seconds of work that a worker leases ahead."""

FEW = 10
"""Number of messages to lease while their costs are unknown, or there is no capacity at all: enough
to ask for capacity with."""


@dataclass(frozen=True, slots=True)
class View:
    """The state of a worker at one moment."""

    slots: int
    """Number of batches that may run at the same time, without those that hang."""
    running: int
    batch_size: int
    waiting: int
    """Number of messages that are leased and have not begun."""
    settling: int = 0
    """Number of messages that have ended and are not yet deleted or released."""
    batch_time: float | None = None
    """How long a batch takes, as far as is known."""
    capacity: AnyCost | None = None
    """The cost that may be spent in a period; None if there is no limit."""
    speed: AnyCost = math.inf
    """How much of it comes in a second."""
    mean_cost: AnyCost | None = 1.0
    batch_cost: AnyCost = 0
    due: int = 0
    """Number of messages that are due and not leased, by the stored times."""


def to_lease(view: View) -> int:
    """Return how many messages to lease now: at most a batch, so that work begins while more is
    leased.

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
    """Return how many more messages free slots could hold. Messages that are being settled count
    too: otherwise they would pile up behind a handler that is faster than the settling."""
    return _slots_soon(view) * view.batch_size - view.waiting - view.settling


def _slots_soon(view: View) -> int:
    """Number of slots that are free, or will be soon."""
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
        # A dimension without a rate, such as slots, has all of its capacity immediately.
        return min(
            _paid_soon(capacity.amount(name), speed.get(name, math.inf), one)
            for name, one in cost.items()
        )
    soon: float = min(capacity, speed * AHEAD)
    return soon / cost
