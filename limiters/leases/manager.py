"""What a SharedResource, and an operator, ask of whoever keeps the leases of a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from limiters.leases.messages import Reply, Request, Terms
from limiters.leases.ranges import Ranges


@dataclass(frozen=True, slots=True)
class MemberView:
    """What is known of one instance of a limit."""

    instance: str
    label: str
    """Who it says it is: its host and process."""
    held: Ranges
    lease_ms: int
    """How much longer it holds them, unless it renews; negative if it is overdue."""
    seen_ms: int
    """How long ago it was heard of."""
    need: float
    """The cost it could spend in a period."""
    gathering: float
    spent: float
    """Of the shared capacity, in the period before it was last heard of."""
    share: float
    """Its fair share, in partitions."""
    weight: float
    reserved: float
    evicted: bool


def has_left(
    held: Ranges, *, until_ms: int, seen_ms: int, gone_ms: int, lease_ms: int, now_ms: int
) -> bool:
    """Whether an instance that is still stored takes part no more, and is not to be shown.

    It holds nothing, and either its last request said goodbye, which is the only one that renews no
    lease; or the next request, of anybody, will forget it, as it was silent for too long.
    """
    return not held and (gone_ms <= now_ms or until_ms < seen_ms + lease_ms)


@dataclass(frozen=True, slots=True)
class LimitView:
    """What is known of a limit."""

    terms: Terms
    capacity: float
    """In force now; less than that of the terms while it is being raised."""
    rising: float
    """By how much a second it is being raised; 0 if it is not."""
    partitions: int
    free: Ranges
    quarantine_ms: int
    members: tuple[MemberView, ...]
    """Those that take part."""
    totals: tuple[float, ...] = ()
    """What all instances there ever were have done, by totals.COUNTERS; () for nothing yet."""


@runtime_checkable
class LeaseManager(Protocol):
    """Keeps the leases of one limit. Implementations are thread-safe."""

    @property
    def name(self) -> str:
        """The datastore whose limit is shared: same name, same limit."""
        ...

    @property
    def lease_time(self) -> float:
        """For how many seconds an instance holds what it was granted, unless it renews."""
        ...

    def sync(self, request: Request) -> Reply:
        """Serves one request. Safe to be sent again. LeaseManagerError if there is no answer."""
        ...

    def set_capacity(self, terms: Terms, ramp: float | None = None) -> None:
        """Changes the capacity to that of `terms`, a raise by at most `ramp` a second.

        Creates the limit if there is none. Another factor starts it over.
        """
        ...

    def evict(self, instance: str) -> bool:
        """Takes everything from `instance` and grants it nothing more; whether it is known."""
        ...

    def delete(self) -> bool:
        """Forgets the limit; whether there was one."""
        ...

    def look(self) -> LimitView | None:
        """What is known of the limit, if there is one."""
        ...

    def close(self) -> None:
        """Lets go of its connections. Those handed in stay open."""
        ...
