"""The plan that one process of a cluster receives."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass
class Plan:
    """The settings of an instance, and its work."""

    url: str
    log: str
    """A file, to which each batch appends when it began (as it was charged), whose it is, what it
    costs."""
    names: tuple[str, ...] = ("i0",)
    """An instance for each name, all in this process."""
    limit: str = "orders"
    shared_capacity: float = 20_000.0
    factor: float = 1_000.0
    reserved_capacity: float = 0.0
    period: float = 1.0
    lease_time: float = 2.0
    max_interval: float = 0.5
    cost: float = 10.0
    batch: int = 10
    operations: int | None = 0
    """How many operations each instance has; None for a backlog that never ends."""
    rate: float = 0.0
    """How many operations a second each instance gets, one by one; 0 for a backlog."""
    begin_at: float = 0.0
    """By MonotonicClock, which all processes of the machine share."""

    def as_argument(self) -> str:
        """The form in which it is handed to a process."""
        return json.dumps(asdict(self))
