"""What a limit allows: rates and numbers of calls in flight, by dimension.

A *bound* is what is kept by itself. Each window of a rate is one, and each number of calls in
flight: whatever keeps limits goes by bounds and needs no other notion of dimensions or windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from limiters._costs import NUMBERS, AnyCost, Costs, checked_cost
from limiters._guard import guard_of
from limiters._plain_numbers import plain
from limiters._support import validation
from limiters._support.validation import MAX_AMOUNT, ArgumentError, amount, text

BURST = 0.1
"""The share of the shortest window that may go at once after a rest, unless the user says more."""

MOST_BURST_S = 1.0
"""The most that it is by default: what the rate allows in so many seconds."""

MAX_BOUNDS = 16
"""How many bounds a limit has at most: one record of an instance has a part for each."""

MAX_SLOTS = 1_000_000
"""How many calls in flight a limit allows at most."""

MAX_OPERATION_TIME = 60.0
"""Seconds: the default of a Batcher, and so of what lasts as long as its calls."""


class BoundKind(Enum):
    """What is counted."""

    RATE = "rate"
    """What was spent in a window."""
    SLOTS = "slots"
    """Calls in flight."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound of a limit: a window of a rate, or a number of calls in flight."""

    dimension: str
    """"" for the only dimension of a limit that has no names."""
    kind: BoundKind
    capacity: float
    period: float
    """Seconds of the window; of slots, how long a call may last."""
    burst: float
    """What may go at once after a rest."""
    at_end: bool = False
    """Whether the window counts from the end of a call, not from its start."""
    max_operation_time: float = 0.0
    """Seconds that a call may last; 0 if it does not matter."""
    strict: bool = True
    """Whether an abandoned call keeps its slot until it returns."""

    def lasting(self, *, shared: bool) -> float:
        """For how many seconds something charged counts at most."""
        window = self.period if self.kind is BoundKind.RATE else 0.0
        longest = window + self.max_operation_time
        return longest + guard_of(longest, shared=shared)

    def __str__(self) -> str:
        if self.kind is BoundKind.SLOTS:
            return f"{self.dimension}: {plain(self.capacity)} in flight"
        name = f"{self.dimension}: " if self.dimension else ""
        return f"{name}{plain(self.capacity)} per {plain(self.period)} s"


@dataclass(frozen=True, slots=True)
class BurstSeconds:
    """A burst as the time in which the rate allows it: made by `seconds`."""

    seconds: float


def seconds(duration: validation.Seconds) -> BurstSeconds:
    """A burst of what the rate allows in so many seconds.

    >>> Rate(600, per=60, burst=seconds(3)).bounds("requests")[0].burst
    30.0
    """
    return BurstSeconds(validation.seconds("seconds", duration))


@dataclass(frozen=True)
class Rate:
    """So much in any window of `per` seconds, and at most as much as each window in `also` allows.

    * `burst`: what may go at once after a rest, as a cost or as `seconds(...)` of the rate. By
      default a tenth of the shortest window, and at most one second of the rate.
    * `counts`: whether the server counts a call from its "start" or from its "end".
    * `max_operation_time`: how many seconds a call may last; needed for `counts="end"` only.

    >>> Rate(600, per=60, also=[Rate(10, per=1)])
    Rate(600, per=60, also=(Rate(10, per=1),))
    """

    capacity: float
    per: validation.Seconds = 1.0
    also: Iterable[Rate] = ()
    burst: float | BurstSeconds | None = None
    counts: Literal["start", "end"] = "start"
    max_operation_time: validation.Seconds = MAX_OPERATION_TIME

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "capacity", amount("capacity", self.capacity))
        put(self, "per", validation.seconds("per", self.per))
        put(self, "also", tuple(self.also))
        longest = validation.seconds("max_operation_time", self.max_operation_time)
        put(self, "max_operation_time", longest)
        if self.burst is not None and not isinstance(self.burst, BurstSeconds):
            put(self, "burst", amount("burst", self.burst))
        validation.one_of("start", "end")("counts", self.counts)
        outer = self
        for inner in self.also:
            self._check_inner(inner)
        for inner in sorted(self.also, key=lambda one: -validation.in_seconds(one.per)):
            inner._check_within(outer)
            outer = inner

    def _check_inner(self, inner: Rate) -> None:
        if not isinstance(inner, Rate):
            raise ArgumentError("also", inner, "hold a Rate for each further window")
        if inner.also or inner.burst is not None or inner.counts != "start":
            advice = "say burst, counts and other windows once, of the outer rate"
            raise ArgumentError("also", inner, "have a capacity and per alone", advice)

    def _check_within(self, outer: Rate) -> None:
        """Refuses what can never bind beside `outer`, the next longer window."""
        if not validation.in_seconds(self.per) < validation.in_seconds(outer.per):
            raise ArgumentError(
                "also", self, f"have a window shorter than per={plain_seconds(outer.per)}"
            )
        if self.capacity >= outer.capacity:
            raise ArgumentError(
                "also",
                self,
                f"have less capacity than the {plain(outer.capacity)} of {outer._per_text}",
                "no shorter window can be filled beyond a longer one, so it has no meaning",
            )

    @property
    def _per_text(self) -> str:
        """Its window, in a message."""
        return f"{plain_seconds(self.per)} s"

    def with_capacity(self, capacity: float) -> Rate:
        """A rate with another capacity: shorter windows and a burst change in proportion."""
        factor = capacity / self.capacity
        burst = self.burst
        return replace(
            self,
            capacity=capacity,
            also=[replace(one, capacity=one.capacity * factor) for one in self.also],
            burst=burst * factor if isinstance(burst, (int, float)) else burst,
        )

    def bounds(self, dimension: str) -> tuple[Bound, ...]:
        """A bound for each of its windows."""
        windows = [self, *sorted(self.also, key=lambda one: -validation.in_seconds(one.per))]
        at_end = self.counts == "end"
        return tuple(
            Bound(
                dimension,
                BoundKind.RATE,
                window.capacity,
                validation.in_seconds(window.per),
                min(self._burst(windows[-1]), window.capacity),
                at_end,
                validation.in_seconds(self.max_operation_time) if at_end else 0.0,
            )
            for window in windows
        )

    def _burst(self, shortest: Rate) -> float:
        a_second = self.capacity / validation.in_seconds(self.per)
        if isinstance(self.burst, BurstSeconds):
            return self.burst.seconds * a_second
        if self.burst is not None:
            return self.burst
        return min(BURST * shortest.capacity, MOST_BURST_S * a_second)

    def __repr__(self) -> str:
        more = f", also={self.also!r}" if self.also else ""
        if isinstance(self.burst, BurstSeconds):
            more += f", burst=seconds({plain(self.burst.seconds)})"
        elif self.burst is not None:
            more += f", burst={plain(self.burst)}"
        if self.counts != "start":
            more += (
                f", counts={self.counts!r}"
                f", max_operation_time={plain_seconds(self.max_operation_time)}"
            )
        return f"Rate({plain(self.capacity)}, per={plain_seconds(self.per)}{more})"


@dataclass(frozen=True)
class InFlight:
    """At most `n` calls in flight, in the whole cluster.

    * `strict`: an abandoned call keeps its slot until it returns. If not, its slot is free at once,
      and there may be more than `n` calls.
    * `max_operation_time`: how many seconds a call may last. The slots of a process that is lost
      are free again so long after its lease has ended.

    >>> InFlight(20)
    InFlight(20)
    """

    n: int
    strict: bool = True
    max_operation_time: validation.Seconds = MAX_OPERATION_TIME

    def __post_init__(self) -> None:
        n = validation.count("n", self.n)
        if n > MAX_SLOTS:
            raise ArgumentError("n", self.n, f"be at most {MAX_SLOTS:,}")
        object.__setattr__(self, "n", n)
        validation.flag("strict", self.strict)
        longest = validation.seconds("max_operation_time", self.max_operation_time)
        object.__setattr__(self, "max_operation_time", longest)

    def bounds(self, dimension: str) -> tuple[Bound, ...]:
        """Its only bound."""
        longest = validation.in_seconds(self.max_operation_time)
        kind = BoundKind.SLOTS
        bound = Bound(dimension, kind, self.n, longest, self.n, False, longest, self.strict)
        return (bound,)

    def with_capacity(self, capacity: float) -> InFlight:
        """The same with another number of calls."""
        return replace(self, n=_whole("capacity", capacity))

    def __repr__(self) -> str:
        more = "" if self.strict else ", strict=False"
        if self.max_operation_time != MAX_OPERATION_TIME:
            more += f", max_operation_time={plain_seconds(self.max_operation_time)}"
        return f"InFlight({self.n}{more})"


class Limits:
    """Several limits at once, by dimension: a cost is charged to all of them, or to none.

    >>> limits = Limits(requests=Rate(600, per=60, also=[Rate(10, per=1)]), calls=InFlight(20))
    >>> [str(bound) for bound in limits.bounds]
    ['requests: 600 per 60 s', 'requests: 10 per 1 s', 'calls: 20 in flight']
    >>> limits.most
    Costs(requests=10, calls=20)
    """

    __slots__ = (
        "_dimensions",
        "_is_plain",
        "_lasting",
        "_slots",
        "bounds",
        "is_scalar",
        "most",
        "nothing",
    )

    _dimensions: Mapping[str, Rate | InFlight]
    bounds: tuple[Bound, ...]
    """Each window and each number of calls, by dimension."""
    is_scalar: bool
    """Whether there is one dimension, so that costs are plain numbers."""

    most: AnyCost
    """The largest cost that could ever be spent at once: in each dimension, of its smallest
    window."""

    nothing: AnyCost
    """No cost, as this limit adds it up."""

    def __init__(self, **dimensions: Rate | InFlight) -> None:
        if not dimensions:
            raise ArgumentError(
                "Limits", validation.UNSHOWN, "have a dimension, as in Limits(requests=Rate(600))"
            )
        for name, one in dimensions.items():
            text("the name of a dimension", name)
            if not isinstance(one, (Rate, InFlight)):
                raise ArgumentError(name, one, "be a Rate or InFlight", f"as in Rate({one!r})")
        self._keep(dimensions)
        if len(self.bounds) > MAX_BOUNDS:
            raise ArgumentError(
                "Limits",
                validation.UNSHOWN,
                f"have at most {MAX_BOUNDS} windows and numbers of calls, not {len(self.bounds)}",
            )

    @classmethod
    def of(cls, capacity: float | Limits, period: float = 1.0) -> Limits:
        """Those that a number means: one dimension without a name."""
        if isinstance(capacity, Limits):
            return capacity
        limits = cls.__new__(cls)
        limits._keep({"": Rate(capacity, period)})
        return limits

    def _keep(self, dimensions: Mapping[str, Rate | InFlight]) -> None:
        self._dimensions = dimensions
        self.is_scalar = len(dimensions) == 1
        self.bounds = tuple(b for name, one in dimensions.items() for b in one.bounds(name))
        self.nothing = 0.0 if self.is_scalar else Costs()
        self.most = self.smallest(bound.capacity for bound in self.bounds)
        slots = [one for one in self.bounds if one.kind is BoundKind.SLOTS]
        self._slots = [bound.dimension for bound in slots]
        self._is_plain = self.is_scalar and not slots
        self._lasting = {bound.dimension for bound in self.bounds if bound.at_end or bound in slots}

    def with_capacity(self, name: str, capacity: object) -> Limits:
        """These with other capacities, given as a number if there is one dimension, or by
        dimension: those that are not named stay. The shorter windows of a rate and its burst change
        in proportion. ArgumentError of the argument `name` if that is not possible."""
        changed = dict(self._dimensions)
        if isinstance(capacity, Mapping):
            for dimension, one in capacity.items():
                if dimension not in changed:
                    raise ArgumentError(name, capacity, self._names())
                more = amount(f"{name}[{dimension!r}]", one)
                changed[dimension] = changed[dimension].with_capacity(more)
        elif self.is_scalar:
            (dimension,) = changed
            changed[dimension] = changed[dimension].with_capacity(amount(name, capacity))
        else:
            raise self._without_dimension(name, amount(name, capacity))
        limits = type(self).__new__(type(self))
        limits._keep(changed)
        return limits

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Their names; ("",) for a plain number."""
        return tuple(self._dimensions)

    @property
    def period(self) -> float:
        """The seconds of the longest window; if there is none, how long a call may last."""
        windows = [one.period for one in self.bounds if one.kind is BoundKind.RATE]
        return max(windows or [one.period for one in self.bounds])

    def smallest(self, amounts: Iterable[float]) -> AnyCost:
        """Of an amount for each bound, the smallest of each dimension: as a cost."""
        found: dict[str, float] = {}
        for bound, one in zip(self.bounds, amounts, strict=True):
            found[bound.dimension] = min(one, found.get(bound.dimension, math.inf))
        return next(iter(found.values())) if self.is_scalar else Costs(found)

    def by_bound(self, cost: AnyCost) -> tuple[float, ...]:
        """What a cost, as `normal` returns it, is for each bound."""
        if isinstance(cost, NUMBERS):
            return tuple(cost for _ in self.bounds)
        return tuple(cost.get(bound.dimension, 0) for bound in self.bounds)

    def sum(self, costs: Iterable[AnyCost]) -> AnyCost:
        """Several costs as one; exact if there is one dimension."""
        return math.fsum(costs) if self.is_scalar else sum(costs, Costs())

    def checked(self, name: str, value: object) -> AnyCost:
        """`value`, whatever it is, as a cost that this limit adds up: see `normal`."""
        if type(value) in NUMBERS and 0 <= value <= MAX_AMOUNT and self._is_plain:  # type: ignore[operator]
            return value  # what follows comes to the same
        return self.normal(name, checked_cost(name, value))

    def normal(self, name: str, cost: AnyCost) -> AnyCost:
        """`cost` as this limit adds it up: a number if there is one dimension, Costs otherwise.

        What it does not name costs nothing there. ArgumentError of the argument `name` if it names
        a dimension that there is not, or none although there are several, or a part of a slot.
        """
        if isinstance(cost, Costs):
            for dimension in cost:
                if dimension not in self._dimensions:
                    raise ArgumentError(name, dict(cost), self._names())
            for dimension in self._slots:
                _whole(f"{name}[{dimension!r}]", cost.amount(dimension))
            return cost.amount(self.dimensions[0]) if self.is_scalar else cost
        if self.is_scalar:
            return _whole(name, cost) if self._slots else cost
        if not cost:
            return Costs()
        raise self._without_dimension(name, cost)

    def actual(self, name: str, value: object, estimated: AnyCost) -> AnyCost:
        """`value`, whatever it is, as the actual cost of a call that was estimated at `estimated`,
        which counts for dimensions that it does not name. ArgumentError of the argument `name` if
        it is not zero or more, or of a dimension that there is not or that counts calls in flight.

        >>> limits = Limits(requests=Rate(10), tokens=Rate(90_000, per=60))
        >>> limits.actual("actual", {"tokens": 1_034}, Costs({"requests": 1, "tokens": 4_500}))
        Costs(requests=1, tokens=1034)
        """
        if type(value) in NUMBERS and 0 <= value <= MAX_AMOUNT and self._is_plain:  # type: ignore[operator]
            return value  # what follows comes to the same
        if not isinstance(value, Mapping):
            number = amount(name, value, zero=True)
            if not self.is_scalar:
                raise self._without_dimension(name, number)
            value = {self.dimensions[0]: number}
        for dimension in value:
            if dimension not in self._dimensions:
                raise ArgumentError(name, dict(value), self._names())
            if dimension in self._slots:
                advice = "calls in flight are counted as long as they last, and cost nothing else"
                raise ArgumentError(name, dict(value), f"not be of {dimension or 'calls'}", advice)
        amounts = {
            dimension: amount(f"{name}[{dimension!r}]", one, zero=True)
            for dimension, one in value.items()
        }
        if self.is_scalar:
            return next(iter(amounts.values()), estimated)
        return Costs({**estimated, **amounts} if isinstance(estimated, Costs) else amounts)

    def speed(self, capacity: AnyCost) -> AnyCost:
        """How much of each rate comes in a second to a holder of `capacity`, which is given as
        `smallest` does it: by the slowest of its windows. Calls in flight do not come by time: of
        Costs they are left out, and as the only dimension they are there at once.

        >>> Limits(calls=Rate(600, per=60, also=[Rate(20, per=1)])).speed(10)
        5.0
        """
        rates = [bound for bound in self.bounds if bound.kind is BoundKind.RATE]
        part: dict[str, float] = {}
        for bound in rates:
            held = capacity.amount(bound.dimension) if isinstance(capacity, Costs) else capacity
            least = min(one.capacity for one in rates if one.dimension == bound.dimension)
            speed = held / least * bound.capacity / bound.period
            part[bound.dimension] = min(speed, part.get(bound.dimension, math.inf))
        return next(iter(part.values()), math.inf) if self.is_scalar else Costs(part)

    def in_whole_slots(self, cost: AnyCost) -> AnyCost:
        """`cost`, a calculated one, with calls in flight rounded up to whole ones."""
        if not self._slots:
            return cost
        if isinstance(cost, Costs):
            return Costs({**cost, **{one: math.ceil(cost.amount(one)) for one in self._slots}})
        return math.ceil(cost)

    def ends_of(self, cost: AnyCost) -> tuple[str, ...]:
        """The dimensions of `cost` that last as long as a call, so that its end has to be known:
        slots, and rates that count from the end."""
        if not self._lasting or not cost:
            return ()
        named = cost if isinstance(cost, Costs) else self.dimensions
        return tuple(name for name in self.dimensions if name in named and name in self._lasting)

    def _without_dimension(self, name: str, number: float) -> ArgumentError:
        example = f"{{{self.dimensions[0]!r}: {plain(number)}}}"
        return ArgumentError(name, number, "say of which dimension it is", f"as in {example}")

    def _names(self) -> str:
        if "" in self._dimensions:
            return "be a number: the limit has one dimension, without a name"
        return f"be of {' and '.join(self.dimensions)} alone"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and self._dimensions == other._dimensions

    def __hash__(self) -> int:
        return hash(self.bounds)

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={one!r}" for name, one in self._dimensions.items())
        return f"Limits({named})"


def _whole(name: str, slots: float) -> int:
    if slots != int(slots):
        advice = "it is a number of calls in flight"
        raise ArgumentError(name, slots, "be a whole number", advice)
    return int(slots)


def plain_seconds(duration: validation.Seconds) -> str:
    """A duration in a message."""
    return plain(validation.in_seconds(duration))
