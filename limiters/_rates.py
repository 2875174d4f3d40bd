"""One dimension of a limit: a rate, or a number of calls in flight.

A *bound* is what is kept by itself. Each window of a rate is one, and each number of calls in
flight: whatever keeps limits goes by bounds and needs no other notion of dimensions or windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from limiters._guard import guard_of
from limiters._plain_numbers import exact, plain
from limiters._support import validation
from limiters._support.validation import ArgumentError, amount

BURST = 0.1
"""The share of the shortest window that may go immediately after a rest, by default."""

MOST_BURST_S = 1.0
"""The most that it is by default: what the rate allows in so many seconds."""

MAX_SLOTS = 1_000_000
"""How many calls in flight a limit allows at most."""

MAX_OPERATION_TIME = 60.0
"""Seconds: the default of a Batcher, and so of what lasts as long as its calls."""


LONGEST = 86_400.0
"""Seconds of a window, and of a call: what was charged has to be remembered for as long."""


class BoundKind(Enum):
    """A bound counts what was spent in a window, or calls in flight."""

    RATE = "rate"
    SLOTS = "slots"


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
    """The cost that may go immediately after a rest."""
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

    * `burst`: what may go immediately after a rest, as a cost or as `seconds(...)` of the rate. By
      default a tenth of the shortest window, and at most one second of the rate.
    * `counts`: whether the server counts a call from its "start" or from its "end".
    * `max_operation_time`: for `counts="end"` alone, how many seconds a call may last, 60 by
      default.

    >>> Rate(600, per=60, also=[Rate(10, per=1)])
    Rate(600, per=60, also=(Rate(10, per=1),))
    """

    capacity: float
    per: validation.Seconds = 1.0
    also: Iterable[Rate] = ()
    burst: float | BurstSeconds | None = None
    counts: Literal["start", "end"] = "start"
    max_operation_time: validation.Seconds | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "capacity", amount("capacity", self.capacity))
        put(self, "per", at_most_a_day("per", self.per))
        put(self, "also", self._inner_windows())
        if self.burst is not None and not isinstance(self.burst, BurstSeconds):
            expected = "a cost, or a time as limiters.seconds(5)"
            put(self, "burst", amount("burst", self.burst, expected=expected))
        validation.one_of("start", "end")("counts", self.counts)
        put(self, "max_operation_time", self._longest_call())
        outer = self
        for inner in self.also:
            inner._check_within(outer)
            outer = inner

    def _longest_call(self) -> float | None:
        """Return how long a call may last, if it counts from its end."""
        longest = self.max_operation_time
        if self.counts == "end":
            given = MAX_OPERATION_TIME if longest is None else longest
            return at_most_a_day("max_operation_time", given)
        if longest is not None:
            raise ArgumentError(
                "max_operation_time",
                longest,
                "be left out, or go with counts='end'",
                "a call that counts from its start counts for one window, however long it lasts",
            )
        return None

    def _inner_windows(self) -> tuple[Rate, ...]:
        """Return its shorter windows, the longest first; the order of `also` does not matter."""
        if isinstance(self.also, Rate) or not isinstance(self.also, Iterable):
            advice = "as in also=[Rate(10, per=1)]"
            raise ArgumentError("also", self.also, "be a list of rates, one a window", advice)
        windows = list(self.also)
        for window in windows:
            self._check_inner(window)
        return tuple(sorted(windows, key=lambda one: -validation.in_seconds(one.per)))

    def _check_inner(self, inner: object) -> None:
        if not isinstance(inner, Rate):
            advice = "as in also=[Rate(10, per=1)]"
            raise ArgumentError("also", inner, "hold a Rate for each further window", advice)
        only = Rate(inner.capacity, inner.per)
        if inner != only:
            advice = "say burst, counts, max_operation_time and other windows of the outer rate"
            raise ArgumentError("also", inner, "have a capacity and per alone", advice)

    def _check_within(self, outer: Rate) -> None:
        """Refuses what can never bind, since `outer`, the next longer window, does."""
        if not validation.in_seconds(self.per) < validation.in_seconds(outer.per):
            raise ArgumentError(
                "also",
                self,
                f"have a window shorter than per={plain_seconds(outer.per)}",
                "the longest window is that of the outer Rate, and no two are as long",
            )
        if self.capacity >= outer.capacity:
            raise ArgumentError(
                "also",
                self,
                f"have less capacity than the {plain(outer.capacity)} of {outer._per_text}",
                "the longer window is full first, so this one would never limit anything: leave "
                "it out, or lower it",
            )

    @property
    def _per_text(self) -> str:
        """Its window, in a message."""
        return f"{plain_seconds(self.per)} s"

    def with_bounds(self, bounds: Sequence[tuple[float, float]]) -> Rate:
        """A rate with other windows, (capacity, period) of each, the longest first. The burst
        changes in proportion to the capacity of the longest."""
        (capacity, period), *inner = bounds
        burst = self.burst
        if isinstance(burst, (int, float)):
            burst = burst * (capacity / self.capacity)
        also = [Rate(*window) for window in inner]
        return replace(self, capacity=capacity, per=period, also=also, burst=burst)

    @property
    def windows(self) -> list[Rate]:
        """A rate for each of its windows, the longest first."""
        return [self, *self.also]

    def bounds(self, dimension: str) -> tuple[Bound, ...]:
        """A bound for each of its windows."""
        windows = self.windows
        longest = self.max_operation_time
        return tuple(
            Bound(
                dimension,
                BoundKind.RATE,
                window.capacity,
                validation.in_seconds(window.per),
                min(self._burst(windows[-1]), window.capacity),
                self.counts == "end",
                0.0 if longest is None else validation.in_seconds(longest),
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
            more += f", burst=seconds({exact(self.burst.seconds)})"
        elif self.burst is not None:
            more += f", burst={exact(self.burst)}"
        if self.counts != "start":
            more += f", counts={self.counts!r}"
        if self.max_operation_time not in (None, MAX_OPERATION_TIME):
            more += f", max_operation_time={exact_seconds(self.max_operation_time)}"
        return f"Rate({exact(self.capacity)}, per={exact_seconds(self.per)}{more})"


@dataclass(frozen=True)
class InFlight:
    """At most `n` calls in flight, in the whole cluster.

    * `strict`: an abandoned call keeps its slot until it returns. If not, its slot is free then,
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
        longest = at_most_a_day("max_operation_time", self.max_operation_time)
        object.__setattr__(self, "max_operation_time", longest)

    def bounds(self, dimension: str) -> tuple[Bound, ...]:
        longest = validation.in_seconds(self.max_operation_time)
        kind = BoundKind.SLOTS
        bound = Bound(dimension, kind, self.n, longest, self.n, False, longest, self.strict)
        return (bound,)

    def with_bounds(self, bounds: Sequence[tuple[float, float]]) -> InFlight:
        """Return a copy with another number of calls, and another longest call."""
        ((slots, longest),) = bounds
        return replace(self, n=whole_slots("n", slots), max_operation_time=longest)

    def __repr__(self) -> str:
        more = "" if self.strict else ", strict=False"
        if self.max_operation_time != MAX_OPERATION_TIME:
            more += f", max_operation_time={exact_seconds(self.max_operation_time)}"
        return f"InFlight({self.n}{more})"


def at_most_a_day(name: str, value: object) -> float:
    """`value` as the length of a window, or of a call."""
    length = validation.seconds(name, value)
    if length > LONGEST:
        raise ArgumentError(name, value, f"be at most {plain(LONGEST)} seconds, a day")
    return length


def whole_slots(name: str, slots: float) -> int:
    """`slots` as a number of calls in flight."""
    if slots != int(slots):
        advice = "it is a number of calls in flight"
        raise ArgumentError(name, slots, "be a whole number", advice)
    return int(slots)


def plain_seconds(duration: validation.Seconds) -> str:
    """A duration in a message."""
    return plain(validation.in_seconds(duration))


def exact_seconds(duration: validation.Seconds) -> str:
    """A duration as it can be read again."""
    return exact(validation.in_seconds(duration))
