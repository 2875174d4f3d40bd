"""ProvisionedResource: a fixed limit for one process."""

from __future__ import annotations

from dataclasses import dataclass, field

from limiters import events
from limiters._budgets.window import Spend, WindowLedger
from limiters._plain_numbers import plain
from limiters._resource.resource import Resource
from limiters._resource.turns import GRACE
from limiters._stats.standing import Standing
from limiters._stats.tally import Publication, Source, Tally
from limiters._support.clock import Clock
from limiters._support.float_error import covers
from limiters._support.options import ConvertedOptions, about
from limiters._support.signatures import lists, takes
from limiters._support.validation import Seconds, amount, in_seconds, seconds


@dataclass(frozen=True, kw_only=True)
class ProvisionedOptions(ConvertedOptions):
    """Those of a ProvisionedResource."""

    max_capacity: float = field(
        kw_only=False, metadata=about("what may be spent in one period", amount)
    )
    period: Seconds = field(
        default=1.0, metadata=about("in which it may be spent", seconds, unit="s")
    )
    clock: Clock | None = field(
        default=None, metadata=about("what tells the time, a ManualClock in tests")
    )


@lists(ProvisionedOptions)
class ProvisionedResource(Resource):
    """Never more than `max_capacity` in any `period`, by whatever Batchers share it.

    It knows no other process: several of them need a shared limit instead. In a forked child
    it begins anew, as a limit of that process. Thread-safe.

    >>> from limiters import ProvisionedResource
    >>> limiter = ProvisionedResource(20_000)        # 20,000 request units a second
    >>> limiter.capacity
    20000
    """

    @takes(ProvisionedOptions)
    def __init__(self, options: ProvisionedOptions) -> None:
        self._max_capacity = options.max_capacity
        self._period = in_seconds(options.period)
        super().__init__(options.clock)

    def _begin(self) -> None:
        super()._begin()
        self._ledger = WindowLedger(self._max_capacity, self._period)

    def __repr__(self) -> str:
        return (
            f"ProvisionedResource({plain(self._max_capacity)}, period={plain(self._ledger.period)})"
        )

    @property
    def max_capacity(self) -> float:
        """What may be spent in one period."""
        return self._max_capacity

    @property
    def period(self) -> float:
        """The seconds in which it may be spent."""
        return self._period

    @property
    def capacity(self) -> float:
        """The same: all of it is held from the start."""
        return self._max_capacity

    @property
    def burst(self) -> float:
        """What may go at once after a rest."""
        return self._ledger.burst(self._clock.now())

    def standing(self) -> Standing:
        """What it allows, what waits, what was spent."""
        with self._lock:
            return Standing(
                name="",
                shared=0.0,
                reserved=self._max_capacity,
                max=self._max_capacity,
                demand=self._demand,
                spent_reserved=self._ledger.total(),
            )

    def _provision(self) -> None:
        self._emitter.emit(events.PROVISION_DONE)
        self._emitter.emit(events.CAPACITY, self._max_capacity)
        self._changed()

    def _leave(self) -> None:
        pass  # nothing was taken from anybody

    def _follow_demand(self) -> None:
        pass  # a fixed capacity does not

    def set_capacity(self, capacity: float) -> None:
        """Changes the limit from now on; what was spent under the old one still counts."""
        with self._lock:
            self._max_capacity = amount("capacity", capacity)
            self._ledger.set_capacity(self._max_capacity)
        self._emitter.emit(events.CAPACITY, capacity)
        self._changed()

    def grant(
        self, up_to: float, at_least: float = 0.0, claimant: object = None
    ) -> ProvisionedGrant:
        """Sets aside up to `up_to` of what may be spent now, possibly nothing."""
        up_to = amount("up_to", up_to, zero=True)
        at_least = amount("at_least", at_least, zero=True)
        with self._lock:
            now = self._clock.now()
            free = 0.0
            if self._turns.is_for(claimant, now):
                free = min(up_to, self._ledger.available(now, at_least))
            if covers(free, at_least) or claimant is None:
                self._turns.end(claimant)
            else:
                until = self._ledger.ready_at(at_least, now) + GRACE
                self._turns.wait(claimant, at_least, until)
            self._ledger.hold(free)
        return ProvisionedGrant(self, free)

    def take(self, cost: float, claimant: object = None) -> bool:
        """Spends `cost` now, if that may be; otherwise `claimant` waits for its turn."""
        cost = amount("cost", cost, zero=True)
        with self._lock:
            now = self._clock.now()
            free = 0.0
            if self._turns.is_for(claimant, now):
                free = self._ledger.available(now, cost)
            if not covers(free, cost):
                self._turns.wait(claimant, cost, self._ledger.ready_at(cost, now) + GRACE)
                return False
            self._turns.end(claimant)
            self._ledger.spend(min(cost, free), now)
            return True

    def ready_at(self, cost: float) -> float:
        """When it is worth asking again for `cost`."""
        with self._lock:
            return self._ledger.ready_at(cost, self._clock.now())

    def publish(self, source: Source) -> Publication:
        """Nobody looks at a limit of one process from outside: `source` is not asked."""
        return Publication(Tally(), source)

    def charge(self, cost: float) -> Spend:
        """Charges `cost` of what a grant holds."""
        with self._lock:
            return self._ledger.charge(cost, self._clock.now())

    def give_back(self, unused: float) -> None:
        """Takes back what a grant did not spend."""
        with self._lock:
            self._ledger.release(unused)


class ProvisionedGrant:
    """One deal with a ProvisionedResource, for the one thread that made it."""

    def __init__(self, limiter: ProvisionedResource, amount: float) -> None:
        self.amount = amount
        self._limiter = limiter
        self._unused = amount

    def fits(self, cost: float) -> bool:
        """Whether all of `cost` was granted."""
        return covers(self.amount, cost)

    def spend(self, cost: float) -> Spend:
        """Charges `cost` of it for a batch that is about to start."""
        self._unused -= cost
        return self._limiter.charge(cost)

    def close(self) -> None:
        """Gives back what was not spent."""
        unused, self._unused = self._unused, 0.0
        self._limiter.give_back(unused)
