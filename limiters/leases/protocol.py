"""What a SharedResource, and an operator, ask of whoever keeps the leases of a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from limiters._support.signatures import takes
from limiters.errors import LeaseManagerError
from limiters.leases._coordinator.state import Limit, Record
from limiters.leases._format import MAX_INSTANCES, NEVER, UNITS, WEIGHT_SCALE
from limiters.leases._messages import Kind, Reply, Request, Terms, fault_of, partitions_of
from limiters.leases._options import TermsChange


@dataclass(frozen=True, slots=True)
class InstanceView:
    """What is known of one instance of a limit. Costs and amounts are in cost for one period."""

    instance: str
    label: str
    """Its host and process."""
    held: float
    """What it holds, as a share of the limit: from 0 to 1."""
    share: float
    """Its fair share, likewise."""
    lease_ms: int
    """How much longer it holds that, unless it renews; negative if it is overdue."""
    seen_ms: int
    """How long ago its last request came."""
    need: float
    """What it could spend in a period."""
    spent: float
    """What it spent of the shared capacity in the period before its last request."""
    waits_for: float
    """The cost for which it waits for a permit; 0 if it does not."""
    waits_ms: int
    """For how long it has waited."""
    permit: float
    """The cost of a permit that it has and has not reported yet; 0 if there is none."""
    weight: float
    reserved: float
    evicted: bool


@dataclass(frozen=True, slots=True)
class LimitView:
    """What is known of a limit."""

    terms: Terms
    capacity: float
    """In force now; less than that of the terms while it is being raised."""
    rising: float
    """By how much a second it is being raised; 0 if it is not."""
    free: float
    """The share of the limit that nobody holds, from 0 to 1."""
    uncertain_ms: int
    """For how long nothing will be granted yet, since it is not known who holds what."""
    cause: str
    """Why it is not known."""
    skew_ms: int
    """How much time of the server's clock does not count, since no instance confirmed it."""
    instances: tuple[InstanceView, ...]
    """Those that take part."""
    totals: tuple[float, ...] = ()
    """What all instances there ever were have done, by COUNTERS; () for nothing yet."""
    unconfirmed_ms: int = 0
    """For how long at most nothing will be granted after the next request, since no instance has
    confirmed the time that went by; 0 if that is not so."""

    @property
    def partitions(self) -> int:
        """Into how many partitions people see it divided."""
        return partitions_of(self.terms.capacity, self.terms.factor)


def view_of(
    limit: Limit, totals: tuple[float, ...], clock: int, default_span: int
) -> LimitView | None:
    """What `limit` looks like at `clock`, the time of the server that keeps it."""
    if limit.deleted:
        return None
    from limiters.leases._coordinator import certainty

    now = max(limit.now, clock - limit.skew)
    end = certainty.end(limit, default_span)
    unconfirmed = not limit.interval or now - limit.now > 2 * limit.interval
    unproven = end - limit.now if unconfirmed else 0
    in_force = limit.ramp.in_force(limit.terms.capacity, now)
    return LimitView(
        terms=limit.terms,
        capacity=in_force,
        rising=limit.ramp.rate * 1000 if in_force < limit.terms.capacity else 0.0,
        free=limit.pool / UNITS,
        uncertain_ms=max(0, end - now),
        cause=limit.cause if end > now or unproven > 0 else "",
        skew_ms=limit.skew,
        instances=tuple(
            _instance(name, one, in_force, now)
            for name, one in sorted(limit.records.items())
            if not _has_left(one, limit, now)
        ),
        totals=totals,
        unconfirmed_ms=max(0, unproven),
    )


def _instance(name: str, record: Record, in_force: float, now: int) -> InstanceView:
    worth = in_force / UNITS
    return InstanceView(
        instance=name,
        label=record.label,
        held=record.units / UNITS,
        share=record.share / UNITS,
        lease_ms=record.until - now,
        seen_ms=now - record.seen,
        need=record.need * worth,
        spent=record.spent,
        waits_for=record.ask,
        waits_ms=now - record.ask_since if record.ask else 0,
        permit=record.permit.cost,
        weight=record.weight / WEIGHT_SCALE,
        reserved=record.reserved,
        evicted=record.evicted,
    )


def _has_left(record: Record, limit: Limit, now: int) -> bool:
    """Whether an instance that is still stored takes part no more, and is not to be shown: it holds
    nothing, and said goodbye, which renews no lease, or is about to be given up."""
    if record.units:
        return False
    gone = max(record.gone, limit.kept_until if limit.kept_until > NEVER else record.gone)
    return gone <= now or record.until < record.seen + limit.terms.lease


def served(reply: Reply, request: Request, name: str) -> Reply:
    """The reply to a request that was served; LeaseManagerError to one that was refused since no
    instance can have sent it, or there is no room for another instance."""
    if reply.kind is Kind.INVALID:
        raise LeaseManagerError(
            f"a request to the limit {name!r} has {fault_of(request) or 'something'} that no "
            "instance can have; nothing was changed"
        )
    if reply.kind is Kind.FULL:
        raise LeaseManagerError(
            f"the limit {name!r} has {MAX_INSTANCES:,} instances, as many as there may be; this "
            "one shares it as soon as one of them has left. dispatcher leases says who they are"
        )
    return reply


@runtime_checkable
class LeaseManager(Protocol):
    """Keeps the leases of one limit. Implementations are thread-safe.

    What is said here of each member holds for all of them; a class that derives from this one says
    only what it does besides.
    """

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

    @takes(TermsChange)
    def set_terms(self, change: TermsChange) -> bool:
        """Changes the terms for all instances; what is None stays. A raised capacity rises by at
        most `ramp` a second. False if there is no such limit, and not all terms are given.
        ArgumentError for what no limit can have, also together with what stays."""
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
