"""ProvisionedResource: a fixed limit for one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from limiters import events
from limiters._bound_names import bound_names
from limiters._budgets.ledger import BoundLedger, ledger_of
from limiters._budgets.several import one_ledger
from limiters._budgets.spend import Spend
from limiters._costs import AnyCost, is_covered, lesser
from limiters._plain_numbers import plain
from limiters._resource.reservation import Receipt
from limiters._resource.resource import Resource
from limiters._resource.turns import GRACE
from limiters._stats.standing import BoundStanding, Standing
from limiters._stats.tally import Publication, Source, Tally
from limiters._support.clock import Clock
from limiters._support.options import ConvertedOptions, about
from limiters._support.signatures import lists, takes
from limiters._support.validation import ArgumentError, Seconds, amount, in_seconds, seconds
from limiters.limits import A_LIMIT, Bound, BoundKind, Limits, read_limits


def _capacity(name: str, value: object) -> float | Limits:
    found = read_limits(name, value) if isinstance(value, str) else value
    return found if isinstance(found, Limits) else amount(name, found, expected=A_LIMIT)


@dataclass(frozen=True, kw_only=True)
class ProvisionedOptions(ConvertedOptions):
    """The options of a ProvisionedResource."""

    max_capacity: float | Limits = field(
        kw_only=False,
        metadata=about(
            "what may be spent in one period, or Limits of several dimensions, also as a text",
            _capacity,
        ),
    )
    period: Seconds = field(
        default=1.0,
        metadata=about(
            "the time in which a number may be spent; Limits have their own",
            seconds,
            unit="s",
        ),
    )
    clock: Clock | None = field(default=None, metadata=about("the clock, a ManualClock in tests"))


@lists(ProvisionedOptions)
class ProvisionedResource(Resource):
    """Allows at most `max_capacity` in any `period`, to all Batchers that share it.

    With `Limits` it keeps several limits, each window and each number of calls in flight exactly.
    It holds for one process: use a shared limit for several. In a forked child it starts over, as a
    limit of that process. Thread-safe.

    >>> from limiters import InFlight, Limits, ProvisionedResource, Rate
    >>> limiter = ProvisionedResource(20_000)        # 20,000 request units a second
    >>> limiter.capacity
    20000
    >>> ProvisionedResource(Limits(requests=Rate(600, per=60), calls=InFlight(20))).capacity
    Costs(requests=600, calls=20)
    """

    @takes(ProvisionedOptions)
    def __init__(self, options: ProvisionedOptions) -> None:
        period = in_seconds(options.period)
        if isinstance(options.max_capacity, Limits) and period != 1:
            raise ArgumentError(
                "period", options.period, "be left out with Limits", "each Rate says its own"
            )
        self._limits = Limits.of(options.max_capacity, period)
        super().__init__(options.clock)

    def _begin(self) -> None:
        super()._begin()
        self._ledgers = [ledger_of(bound, freed=self._changed) for bound in self._limits.bounds]
        self._ledger = one_ledger(self._limits, self._ledgers)

    def __repr__(self) -> str:
        if "" not in self._limits.dimensions:
            return f"ProvisionedResource({self._limits!r})"
        capacity = plain(self._limits.bounds[0].capacity)
        return f"ProvisionedResource({capacity}, period={plain(self.period)})"

    @property
    def limits(self) -> Limits:
        """The limits by dimension, with all bounds."""
        return self._limits

    @property
    def max_capacity(self) -> AnyCost:
        """The capacity of one period; with several windows, of the window that allows least."""
        return self._limits.most

    @property
    def period(self) -> float:
        """The seconds in which it may be spent; with several windows, of the longest."""
        return self._limits.period

    @property
    def capacity(self) -> AnyCost:
        """The capacity of one period: all of it is held from the start."""
        return self._limits.most

    @property
    def burst(self) -> AnyCost:
        """The largest cost that may be spent immediately after a rest."""
        return self._ledger.burst(self._clock.now())

    def standing(self) -> Standing:
        """Return its capacity, what waits and what was spent."""
        with self._lock:
            now = self._clock.now()
            return Standing(
                name="",
                shared=self._limits.nothing,
                reserved=self._limits.most,
                max=self._limits.most,
                demand=self._demand,
                bounds=self._bound_standings(now),
                spent_shared=self._limits.nothing,
                spent_reserved=self._ledger.total(),
            )

    def _bound_standings(self, now: float) -> tuple[BoundStanding, ...]:
        bounds = self._limits.bounds
        names = bound_names((bound.dimension, bound.period) for bound in bounds)
        demand = self._limits.by_bound(self._demand)
        return tuple(
            _standing(name, bound, ledger, waiting, now)
            for name, bound, ledger, waiting in zip(
                names, bounds, self._ledgers, demand, strict=True
            )
        )

    def _provision(self) -> None:
        self._emitter.emit(events.PROVISION_DONE)
        self._emitter.emit(events.CAPACITY, self._limits.most)
        self._changed()

    def _leave(self) -> None:
        pass  # its capacity belongs to this process alone

    def _follow_demand(self) -> None:
        pass  # a fixed capacity does not follow demand

    def set_capacity(self, capacity: float | Mapping[str, float]) -> None:
        """Change the capacity; costs that were spent before still count.

        Limits of several dimensions or windows take a mapping by their names, as in `{"tokens":
        90_000, "requests/1s": 12}`: those that are not named stay as they are. The burst of a rate
        changes in proportion.
        """
        with self._lock:
            self._limits = self._limits.with_capacity("capacity", capacity)
            for ledger, bound in zip(self._ledgers, self._limits.bounds, strict=True):
                ledger.set_capacity(bound.capacity)
        self._emitter.emit(events.CAPACITY, self._limits.most)
        self._changed()

    def grant(
        self, up_to: AnyCost, at_least: AnyCost = 0.0, claimant: object = None
    ) -> ProvisionedGrant:
        """Set aside up to `up_to` of the capacity that may be spent now, possibly nothing."""
        up_to = self._limits.checked("up_to", up_to)
        at_least = self._limits.checked("at_least", at_least)
        with self._lock:
            now = self._clock.now()
            free = self._limits.nothing
            if self._turns.is_for(claimant, now):
                free = lesser(up_to, self._ledger.available(now, at_least))
            if is_covered(free, at_least) or claimant is None:
                self._turns.end(claimant)
            else:
                until = self._ledger.ready_at(at_least, now) + GRACE
                self._turns.wait(claimant, at_least, until)
            self._ledger.hold(free)
        return ProvisionedGrant(self, free)

    def take(self, cost: AnyCost, claimant: object, receipt: Receipt) -> bool:
        """Charge `cost` as begun now, if there is capacity; otherwise `claimant` waits for its
        turn."""
        with self._lock:
            now = self._clock.now()
            free = self._limits.nothing
            if self._turns.is_for(claimant, now):
                free = self._ledger.available(now, cost)
            if not is_covered(free, cost):
                self._turns.wait(claimant, cost, self._ledger.ready_at(cost, now) + GRACE)
                return False
            self._turns.end(claimant)
            payment = self._ledger.payment(lesser(cost, free), now, receipt)
            receipt.payment = payment  # first: an interrupt may come now
            payment.enter()
            return True

    def ready_at(self, cost: AnyCost) -> float:
        """Return the time when a new request for `cost` may succeed."""
        cost = self._limits.checked("cost", cost)
        with self._lock:
            return self._ledger.ready_at(cost, self._clock.now())

    def publish(self, source: Source) -> Publication:
        """Return a publication that never calls `source`: a limit of one process is not shown
        outside."""
        return Publication(Tally(), source)

    def charge(self, cost: AnyCost) -> Spend:
        """Charge `cost` of the capacity that a grant holds."""
        with self._lock:
            return self._ledger.charge(cost, self._clock.now())

    def give_back(self, unused: AnyCost) -> None:
        """Take back capacity that a grant did not spend."""
        with self._lock:
            self._ledger.release(unused)


class ProvisionedGrant:
    """Capacity that was set aside, for the one thread that requested it."""

    def __init__(self, limiter: ProvisionedResource, amount: AnyCost) -> None:
        self.amount = amount
        self._limiter = limiter
        self._unused = amount

    def fits(self, cost: AnyCost) -> bool:
        """Whether all of `cost` was granted."""
        return is_covered(self.amount, cost)

    def spend(self, cost: AnyCost) -> Spend:
        """Charge `cost` of it for a batch that is about to start."""
        self._unused = self._unused - cost
        return self._limiter.charge(cost)

    def close(self) -> None:
        """Return the capacity that was not spent."""
        unused, self._unused = self._unused, self.amount * 0
        self._limiter.give_back(unused)


def _standing(
    name: str, bound: Bound, ledger: BoundLedger, demand: float, now: float
) -> BoundStanding:
    busy, spending = ledger.spent(now), ledger.spending(now)
    slots = bound.kind is BoundKind.SLOTS
    return BoundStanding(
        dimension=name,
        shared=0.0,
        reserved=bound.capacity,
        max=bound.capacity,
        demand=demand,
        spent_reserved=spending.estimated,
        refunded_reserved=spending.refunded,
        excess_reserved=spending.excess,
        slots_busy=busy if slots else None,
        slots_idle=max(0.0, bound.capacity - busy) if slots else None,
    )
