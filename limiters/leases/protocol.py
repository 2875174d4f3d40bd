"""What a SharedResource, and an operator, ask of whoever keeps the leases of a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from limiters._support.learned_cost import LearnedCost
from limiters._support.signatures import takes
from limiters.errors import LeaseManagerError
from limiters.leases._coordinator.state import BoundState, Limit, Record
from limiters.leases._format import MAX_INSTANCES, WEIGHT_SCALE
from limiters.leases._layout import names_of, parts_of
from limiters.leases._learned_costs import costs_below
from limiters.leases._messages import (
    BoundTerms,
    Kind,
    Reply,
    Request,
    Terms,
    fault_of,
    partitions_of,
)
from limiters.leases._operator import TermsChange
from limiters.leases._totals import named


@dataclass(frozen=True, slots=True)
class HoldingView:
    """What is known of one instance in one bound of a limit. Costs and amounts are in cost for one
    period; of slots, they are numbers of calls."""

    dimension: str = ""
    """What the bound is called: its dimension, and its window if the dimension has several."""
    held: float = 0.0
    """What it holds, as a share of the bound: from 0 to 1."""
    share: float = 0.0
    """Its fair share, likewise."""
    need: float = 0.0
    """What it could spend in a period."""
    spent: float = 0.0
    """What it spent of the shared capacity in the period before its last request."""
    waits_for: float = 0.0
    """The cost for which it waits for a permit; 0 if it does not."""
    permit: float = 0.0
    """The cost of a permit that it has and has not reported yet; 0 if there is none."""
    reserved: float = 0.0


@dataclass(frozen=True, slots=True)
class InstanceView:
    """What is known of one instance of a limit. `held`, `share`, `need`, `spent`, `waits_for`,
    `permit` and `reserved` are those of the first bound."""

    instance: str
    label: str
    """Its host and process."""
    bounds: tuple[HoldingView, ...]
    """What it holds of each bound, in the order of those of the limit."""
    lease_ms: int
    """How much longer it holds that, unless it renews; negative if it is overdue."""
    seen_ms: int
    """How long ago its last request came."""
    waits_ms: int
    """For how long it has waited for a permit."""
    weight: float
    evicted: bool
    described: str = ""
    """All that it says of itself to people: its label, and what it has learned."""

    @property
    def learned_costs(self) -> Sequence[LearnedCost]:
        """What it has learned of the costs of calls, as far as that fits into a request."""
        return costs_below(self.described)

    @property
    def holds(self) -> bool:
        """Whether it holds something of any bound."""
        return any(one.held for one in self.bounds)

    @property
    def waits(self) -> bool:
        """Whether it waits for a permit."""
        return any(one.waits_for for one in self.bounds)

    @property
    def held(self) -> float:
        """What it holds of the first bound, as a share of that: from 0 to 1."""
        return self.bounds[0].held

    @property
    def share(self) -> float:
        """Its fair share of the first bound, likewise."""
        return self.bounds[0].share

    @property
    def need(self) -> float:
        """What it could spend in a period of the first bound."""
        return self.bounds[0].need

    @property
    def spent(self) -> float:
        """What it spent in the period before its last request."""
        return self.bounds[0].spent

    @property
    def waits_for(self) -> float:
        """The cost for which it waits for a permit; 0 if it does not."""
        return self.bounds[0].waits_for

    @property
    def permit(self) -> float:
        """The cost of a permit that it has and has not reported yet; 0 if there is none."""
        return self.bounds[0].permit

    @property
    def reserved(self) -> float:
        """Its reserved capacity."""
        return self.bounds[0].reserved


@dataclass(frozen=True, slots=True)
class BoundView:
    """What is known of one bound of a limit: of a window of a rate, or of calls in flight."""

    terms: BoundTerms
    capacity: float
    """In force now; less than that of the terms while it is being raised."""
    rising: float = 0.0
    """By how much a second it is being raised; 0 if it is not."""
    free: float = 1.0
    """The share of it that nobody holds, from 0 to 1. Negative while more slots are held than there
    are now."""
    dimension: str = ""
    """What it is called: its dimension, and its window if the dimension has several."""
    cost_dimension: str = ""
    """The dimension alone: that of the costs that are charged to it."""


@dataclass(frozen=True, slots=True)
class LimitView:
    """What is known of a limit. `capacity`, `rising` and `free` are those of the first bound."""

    terms: Terms
    bounds: tuple[BoundView, ...]
    uncertain_ms: int
    """For how long nothing will be granted yet, since it is not known who holds what."""
    cause: str
    """Why it is not known."""
    skew_ms: int
    """How much time of the server's clock does not count, since no instance confirmed it."""
    instances: tuple[InstanceView, ...]
    """Those that take part."""
    totals: tuple[float, ...] = ()
    """What all instances there ever were have done, in the order of `counters_of` the dimensions;
    () for nothing yet."""
    unconfirmed_ms: int = 0
    """For how long at most nothing will be granted after the next request, since no instance has
    confirmed the time that went by; 0 if that is not so."""

    @property
    def capacity(self) -> float:
        """That of the first bound in force now."""
        return self.bounds[0].capacity

    @property
    def rising(self) -> float:
        """By how much a second that is being raised; 0 if it is not."""
        return self.bounds[0].rising

    @property
    def free(self) -> float:
        """The share of the first bound that nobody holds, from 0 to 1."""
        return self.bounds[0].free

    @property
    def cost_dimensions(self) -> tuple[str, ...]:
        """The dimensions of costs; of several windows one."""
        return tuple(dict.fromkeys(one.cost_dimension for one in self.bounds))

    @property
    def done(self) -> Mapping[str, float]:
        """The totals by name: of COUNTERS, and of further dimensions as `name_in` says."""
        return named(self.totals, self.cost_dimensions)

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
    names = dimensions_of(limit.terms)
    return LimitView(
        terms=limit.terms,
        bounds=tuple(
            _bound(name, dimension, one, now)
            for name, dimension, one in zip(
                names, cost_dimensions_of(limit.terms), limit.bounds, strict=True
            )
        ),
        uncertain_ms=max(0, end - now),
        cause=limit.cause if end > now or unproven > 0 else "",
        skew_ms=limit.skew,
        instances=tuple(
            _instance(name, one, limit, names, now)
            for name, one in sorted(limit.records.items())
            if not _has_left(one, limit, now)
        ),
        totals=totals,
        unconfirmed_ms=max(0, unproven),
    )


def dimensions_of(terms: Terms) -> tuple[str, ...]:
    """What people call each bound."""
    try:
        return names_of(terms.layout, [one.period for one in terms.bounds])
    except ValueError:  # nobody has to keep to what a layout looks like
        return tuple(f"bound {number}" for number in range(1, len(terms.bounds) + 1))


def cost_dimensions_of(terms: Terms) -> tuple[str, ...]:
    """The dimension of each bound: that of the costs that are charged to it."""
    try:
        parts = parts_of(terms.layout)
    except ValueError:
        return dimensions_of(terms)
    known = len(parts) == len(terms.bounds)
    return tuple(one.dimension for one in parts) if known else dimensions_of(terms)


def _bound(name: str, dimension: str, bound: BoundState, now: int) -> BoundView:
    in_force = bound.in_force(now)
    return BoundView(
        terms=bound.terms,
        capacity=in_force,
        rising=bound.ramp.rate * 1000 if in_force < bound.terms.capacity else 0.0,
        free=bound.pool / bound.whole,
        dimension=name,
        cost_dimension=dimension,
    )


def _instance(
    name: str, record: Record, limit: Limit, names: Sequence[str], now: int
) -> InstanceView:
    return InstanceView(
        instance=name,
        label=record.label.partition("\n")[0],
        bounds=tuple(
            HoldingView(
                dimension=dimension,
                held=one.units / bound.whole,
                share=one.share / bound.whole,
                need=one.need * bound.worth(now),
                spent=one.spent,
                waits_for=one.ask,
                permit=one.permit.cost,
                reserved=one.reserved,
            )
            for dimension, bound, one in zip(names, limit.bounds, record.holdings, strict=True)
        ),
        lease_ms=record.until - now,
        seen_ms=now - record.seen,
        waits_ms=now - record.ask_since if record.asks else 0,
        weight=record.weight / WEIGHT_SCALE,
        evicted=record.evicted,
        described=record.label,
    )


def _has_left(record: Record, limit: Limit, now: int) -> bool:
    """Whether an instance that is still stored takes part no more, and is not to be shown: it holds
    nothing, and said goodbye, which renews no lease, or is about to be given up."""
    if record.holds:
        return False
    from limiters.leases._coordinator import certainty

    ends = certainty.gone_at(limit, record)
    return ends <= now or record.until < record.seen + limit.terms.lease


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
