"""What an operator changes of the terms of a limit, as a coordinator takes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from limiters._support.validation import ArgumentError
from limiters.leases._format import CHANGE, CHANGE_BOUND, MAX_BOUNDS, FieldKind
from limiters.leases._ledger import counts_for, guard_for
from limiters.leases._messages import BoundTerms, Terms, fault_of_bound


@dataclass(frozen=True, slots=True)
class BoundChange:
    """What is changed of one bound; 0 for what stays as it is."""

    capacity: float = 0.0
    period: int = 0
    lasting: int = 0
    """0 as well for what follows from the period."""
    slots: bool = False
    ramp: float = 0.0
    """By how much a raised capacity rises at most, for each millisecond; 0 for at once."""

    @classmethod
    def whole(cls, terms: BoundTerms) -> BoundChange:
        """That to all of these terms."""
        return cls(terms.capacity, terms.period, terms.lasting, terms.slots)

    @property
    def is_whole(self) -> bool:
        """Whether it says all that a new bound needs."""
        return bool(self.capacity and self.period)

    @property
    def terms(self) -> BoundTerms:
        """Those of a new bound."""
        usual = self.period + guard_for(self.period) if self.slots else counts_for(self.period)
        return BoundTerms(self.capacity, self.period, self.lasting or usual, self.slots)

    def applied_to(self, terms: BoundTerms) -> BoundTerms:
        """What these terms become."""
        if self.period:
            terms = terms.with_period(self.period)
        return replace(
            terms, capacity=self.capacity or terms.capacity, lasting=self.lasting or terms.lasting
        )


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What is changed of a limit; 0 for what stays as it is. Changes of bounds are of those of the
    `layout`, in order; none of them means that all stay."""

    bounds: tuple[BoundChange, ...] = ()
    factor: float = 0.0
    lease: int = 0
    layout: str = ""

    @classmethod
    def scalar(
        cls,
        *,
        capacity: float | None = None,
        factor: float | None = None,
        period: int | None = None,
        lease: int | None = None,
        ramp: float | None = None,
    ) -> LimitChange:
        """That of a limit of one rate without a name."""
        bound = BoundChange(capacity or 0.0, period or 0, ramp=ramp or 0.0)
        bounds = (bound,) if capacity or period or ramp else ()
        return cls(bounds, factor or 0.0, lease or 0)

    @property
    def capacity(self) -> float:
        """That of the first bound; 0 if it stays."""
        return self.bounds[0].capacity if self.bounds else 0.0

    @property
    def is_whole(self) -> bool:
        """Whether it says all that a new limit needs."""
        return bool(
            self.bounds and self.factor and self.lease and all(one.is_whole for one in self.bounds)
        )

    @property
    def terms(self) -> Terms:
        """Those of a new limit."""
        return Terms(tuple(one.terms for one in self.bounds), self.factor, self.lease, self.layout)

    def is_of(self, terms: Terms) -> bool:
        """Whether it is a change of these bounds."""
        if not self.bounds:
            return True
        kinds = [one.slots for one in terms.bounds]
        return self.layout == terms.layout and kinds == [one.slots for one in self.bounds]

    def applied_to(self, known: Terms | None) -> Terms:
        """What these terms become. ArgumentError if they are of other bounds, and it does not say
        all of them; or if no limit can have what results."""
        if known is not None and self.is_of(known):
            goal = replace(
                known,
                bounds=self._bounds_of(known),
                factor=self.factor or known.factor,
                lease=self.lease or known.lease,
            )
        elif known is None or self.is_whole:
            goal = self.terms
        else:
            raise ArgumentError("layout", self.layout, f"be that of the limit, {known.layout!r}")
        for bound in goal.bounds:
            fault = fault_of_bound(bound)
            if fault:
                raise ArgumentError(fault, getattr(bound, fault), "be what a limit can have")
        return goal

    def _bounds_of(self, known: Terms) -> tuple[BoundTerms, ...]:
        if not self.bounds:
            return known.bounds
        return tuple(
            one.applied_to(bound) for one, bound in zip(self.bounds, known.bounds, strict=True)
        )

    def check(self) -> None:
        """Refuses what no limit can have."""
        if len(self.bounds) > MAX_BOUNDS:
            raise ArgumentError("bounds", len(self.bounds), f"be at most {MAX_BOUNDS}")
        for owner, fields in ((self, CHANGE), *((one, CHANGE_BOUND) for one in self.bounds)):
            for one in fields:
                value = getattr(owner, one.name)
                if one.kind in (FieldKind.WHOLE, FieldKind.FLOAT) and value and not one.fits(value):
                    raise ArgumentError(one.name, value, "be what a limit can have")
