"""What a limiter shows."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator

from dispatcher.metrics import _names as names
from dispatcher.metrics._names import Metric
from dispatcher.metrics.parts import Options, Part, instrumentable
from dispatcher.metrics.readings import Reading, by_dimension
from limiters._costs import AnyCost
from limiters.limiter import RateLimiter
from limiters.provisioned import ProvisionedResource
from limiters.shared import SharedResource


def label_of(limiter: RateLimiter | None, options: Options) -> str:
    """The label `limit` of a limiter and of the Batcher that goes by it; empty without one."""
    if limiter is None:
        return ""
    own = limiter.standing().name if isinstance(limiter, SharedResource) else ""
    return own or options.limit_of(limiter) or options.name or "default"


class LimiterPart:
    """Reads one limiter; one that is nobody's any more, as it was when it was read last."""

    def __init__(self, limiter: ProvisionedResource | SharedResource, options: Options) -> None:
        self._limiter = weakref.ref(limiter)
        self._shares = isinstance(limiter, SharedResource)
        self._standing = limiter.standing()
        self.limit = label_of(limiter, options)
        self._dimensions = limiter.limits.dimensions

    @property
    def subject(self) -> object:
        """See Part."""
        return self._limiter()

    def read(self) -> Iterator[Reading]:
        """See Part."""
        limiter, limit = self._limiter(), self.limit
        if limiter is not None:
            self._standing = limiter.standing()
        now = self._standing
        yield from self._cost(names.SPENT, (limit, "reserved"), now.spent_reserved)
        if self._shares:
            yield from self._cost(names.SPENT, (limit, "shared"), now.spent_shared)
            yield Reading(names.SYNC, (limit,), now.sync_seconds)
            yield Reading(names.SYNC_FAILURES, (limit,), now.sync_failures)
            yield Reading(names.PERMITS, (limit,), now.permits)
        if limiter is None:
            return
        yield from self._cost(names.CAPACITY, (limit, "shared"), now.shared)
        yield from self._cost(names.CAPACITY, (limit, "reserved"), now.reserved)
        yield from self._cost(names.CAPACITY, (limit, "max"), now.max)
        yield from self._cost(names.DEMAND, (limit,), now.demand)
        if self._shares:
            yield Reading(names.LIMITER_INFO, (limit, now.member), 1)
            yield Reading(names.PARTITIONS, (limit, "held"), now.partitions_held)
            yield Reading(names.PARTITIONS, (limit, "wanted"), now.partitions_wanted)
            yield Reading(names.FAIR_SHARE, (limit,), now.fair_share)
            yield Reading(names.PERMIT_WAIT, (limit,), now.permit_wait)
            yield Reading(names.PERMIT_TURN, (limit,), now.turn)
            yield Reading(names.UNCERTAIN, (limit, now.uncertain_cause), now.uncertain)
            yield Reading(names.LEASE_SKEW, (limit,), now.clock_skew)
            yield Reading(names.REFUSED, (limit,), now.refused)
        if now.connected is not None:
            yield Reading(names.LIMIT_REDIS_UP, (limit,), now.connected)

    def _cost(self, metric: Metric, labels: tuple[str, ...], cost: AnyCost) -> Iterator[Reading]:
        return by_dimension(metric, labels, cost, self._dimensions)


class ForeignLimiterPart:
    """Reads a limiter of the user's own, which keeps to the protocol and tells nothing more."""

    def __init__(self, limiter: RateLimiter, options: Options) -> None:
        self._limiter = weakref.ref(limiter)
        self.limit = label_of(limiter, options)

    @property
    def subject(self) -> object:
        """See Part."""
        return self._limiter()

    def read(self) -> Iterator[Reading]:
        """See Part."""
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
    """A limiter's own."""
    return [LimiterPart(limiter, options)]
