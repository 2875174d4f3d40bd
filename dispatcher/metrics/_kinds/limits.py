"""Metrics of a limiter."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator

from dispatcher.metrics import _names as names
from dispatcher.metrics.parts import Options, Part, instrumentable
from dispatcher.metrics.readings import Reading, by_dimension
from limiters._stats.standing import BoundStanding
from limiters.limiter import RateLimiter
from limiters.provisioned import ProvisionedResource
from limiters.shared import SharedResource


def label_of(limiter: RateLimiter | None, options: Options) -> str:
    """Return the label `limit` of a limiter and of the Batcher that uses it; empty without one."""
    if limiter is None:
        return ""
    own = limiter.standing().name if isinstance(limiter, SharedResource) else ""
    return own or options.limit_of(limiter) or options.name or "default"


class LimiterPart:
    """Reads one limiter; after it is gone, what it had counted when it was read last."""

    def __init__(self, limiter: ProvisionedResource | SharedResource, options: Options) -> None:
        self._limiter = weakref.ref(limiter)
        self._shares = isinstance(limiter, SharedResource)
        self._standing = limiter.standing()
        self.limit = label_of(limiter, options)

    @property
    def subject(self) -> object:
        return self._limiter()

    def read(self) -> Iterator[Reading]:
        limiter, limit = self._limiter(), self.limit
        if limiter is not None:
            self._standing = limiter.standing()
        now = self._standing
        for bound in now.bounds:
            label = (bound.dimension,) if len(now.bounds) > 1 else ()
            yield from self._counted(bound, label)
            if limiter is not None:
                yield from self._there(bound, label)
        if self._shares:
            yield Reading(names.SYNC, (limit,), now.sync_seconds)
            yield Reading(names.SYNC_FAILURES, (limit,), now.sync_failures)
            yield Reading(names.PERMITS, (limit,), now.permits)
        if limiter is None:
            return
        if self._shares:
            yield Reading(names.LIMITER_INFO, (limit, now.member), 1)
            yield Reading(names.PERMIT_WAIT, (limit,), now.permit_wait)
            yield Reading(names.PERMIT_TURN, (limit,), now.turn)
            yield Reading(names.UNCERTAIN, (limit, now.uncertain_cause), now.uncertain)
            yield Reading(names.LEASE_SKEW, (limit,), now.clock_skew)
            yield Reading(names.REFUSED, (limit,), now.refused)
        if now.connected is not None:
            yield Reading(names.LIMIT_REDIS_UP, (limit,), now.connected)

    def _counted(self, bound: BoundStanding, label: tuple[str, ...]) -> Iterator[Reading]:
        for metric, reserved, shared in (
            (names.SPENT, bound.spent_reserved, bound.spent_shared),
            (names.REFUNDED, bound.refunded_reserved, bound.refunded_shared),
            (names.EXCESS, bound.excess_reserved, bound.excess_shared),
        ):
            yield Reading(metric, (self.limit, "reserved", *label), reserved)
            if self._shares:
                yield Reading(metric, (self.limit, "shared", *label), shared)

    def _there(self, bound: BoundStanding, label: tuple[str, ...]) -> Iterator[Reading]:
        limit = self.limit
        for kind in ("shared", "reserved", "max"):
            yield Reading(names.CAPACITY, (limit, kind, *label), getattr(bound, kind))
        yield Reading(names.DEMAND, (limit, *label), bound.demand)
        if bound.slots_busy is not None and bound.slots_idle is not None:
            yield Reading(names.SLOTS, (limit, "busy", *label), bound.slots_busy)
            yield Reading(names.SLOTS, (limit, "idle", *label), bound.slots_idle)
        if self._shares:
            yield Reading(names.PARTITIONS, (limit, "held", *label), bound.partitions_held)
            yield Reading(names.PARTITIONS, (limit, "wanted", *label), bound.partitions_wanted)
            yield Reading(names.FAIR_SHARE, (limit, *label), bound.fair_share)


class ForeignLimiterPart:
    """Reads a limiter of a class of the user's own: its capacity, which the protocol has."""

    def __init__(self, limiter: RateLimiter, options: Options) -> None:
        self._limiter = weakref.ref(limiter)
        self.limit = label_of(limiter, options)

    @property
    def subject(self) -> object:
        return self._limiter()

    def read(self) -> Iterator[Reading]:
        limiter = self._limiter()
        if limiter is not None:
            for kind, cost in (("shared", limiter.capacity), ("max", limiter.max_capacity)):
                labels, dimensions = (self.limit, kind), limiter.limits.dimensions
                yield from by_dimension(names.CAPACITY, labels, cost, dimensions)


@instrumentable(SharedResource)
@instrumentable(ProvisionedResource)
def parts_of_limiter(
    limiter: ProvisionedResource | SharedResource, options: Options
) -> Iterable[Part]:
    """Return the part of a limiter."""
    return [LimiterPart(limiter, options)]
