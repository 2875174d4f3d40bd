"""Limits: rates and numbers of calls in flight, by dimension."""

from __future__ import annotations

import math
import re
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from keyword import iskeyword

from limiters._bound_names import bound_names
from limiters._costs import (
    A_COST,
    NUMBERS,
    AnyCost,
    Costs,
    amounts_in,
    checked_cost,
    replaced,
)
from limiters._limits_text import (
    dimension_text,
    plain_text,
    read_dimensions,
    read_number_or_text,
)
from limiters._plain_numbers import exact, plain
from limiters._rates import (
    BURST,
    MAX_OPERATION_TIME,
    MOST_BURST_S,
    Bound,
    BoundKind,
    BurstSeconds,
    InFlight,
    Rate,
    seconds,
    whole_slots,
)
from limiters._support import validation
from limiters._support.durations import read_seconds
from limiters._support.near_names import did_you_mean
from limiters._support.nested_windows import NamedWindow, check_nested
from limiters._support.validation import MAX_AMOUNT, ArgumentError, amount

__all__ = (
    "A_LIMIT",
    "BURST",
    "MAX_BOUNDS",
    "MAX_OPERATION_TIME",
    "MOST_BURST_S",
    "Bound",
    "BoundKind",
    "BurstSeconds",
    "InFlight",
    "Limits",
    "Rate",
    "nameless",
    "read_limits",
    "seconds",
)

LONGEST_NAME = 40
"""The longest name of a dimension: sixteen names are stored as one text of limited length."""

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.\-]{{0,{LONGEST_NAME - 1}}}")

MAX_BOUNDS = 16
"""The largest number of bounds of a limit: the record of an instance has a part for each."""


_NAMELESS = re.compile(r"(?P<amount>\d+\.?\d*(?:[eE][+-]?\d{1,3})?)/(?P<per>[^=,:+]+)")
"""The text of a limit of one dimension without a name, with its window."""


class Limits:
    """Several limits, by dimension. A cost is charged to all of them, or to none.

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
    """The largest cost that could ever be granted: in each dimension the capacity of the window
    that allows least."""

    nothing: AnyCost
    """A cost of zero, in the form in which this limit adds costs up."""

    def __init__(self, /, **dimensions: Rate | InFlight) -> None:
        if not dimensions:
            raise ArgumentError(
                "Limits", validation.UNSHOWN, "have a dimension, as in Limits(requests=Rate(600))"
            )
        given: Mapping[str, object] = dimensions
        for name, one in given.items():
            _check_name(name)
            if not isinstance(one, (Rate, InFlight)):
                raise _no_limit(name, one)
        self._keep(dimensions)
        if len(self.bounds) > MAX_BOUNDS:
            raise ArgumentError(
                "Limits",
                validation.UNSHOWN,
                f"have at most {MAX_BOUNDS} windows and numbers of calls, not {len(self.bounds)}",
            )

    @classmethod
    def of(cls, capacity: float | Limits, period: float = 1.0) -> Limits:
        """Return the Limits of a number: one dimension without a name."""
        if isinstance(capacity, Limits):
            return capacity
        limits = cls.__new__(cls)
        with validation.named({"per": "period"}):
            limits._keep({"": Rate(capacity, period)})
        return limits

    @classmethod
    def parse(cls, text: str) -> Limits:
        """Return the Limits that `text` stands for, as the command line, variables and files have
        them. ArgumentError if there are none. `str()` returns such a text, without loss.

        >>> limits = Limits.parse("requests=600/60s+10/1s,tokens=90000/60s,calls=20slots")
        >>> limits
        Limits(requests=Rate(600, per=60, also=(Rate(10, per=1),)), tokens=Rate(90000, per=60), \
calls=InFlight(20))
        >>> print(limits)
        requests=600/60s+10/1s,tokens=90000/60s,calls=20slots
        """
        found = read_limits("text", validation.text("text", text))
        return found if isinstance(found, Limits) else cls.of(found)

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
        """Return these limits with other capacities, given as a number if there is one, or by the
        names of windows and numbers of calls: those that are not named stay. The burst of a rate
        changes in proportion. ArgumentError of the argument `name` if that is not possible.

        >>> limits = Limits(requests=Rate(600, per=60, also=[Rate(10)]), calls=InFlight(5))
        >>> print(limits.with_capacity("capacity", {"requests/1s": 12, "calls": 6}))
        requests=600/60s+12/1s,calls=6slots
        """
        names = bound_names((bound.dimension, bound.period) for bound in self.bounds)
        changed: dict[str, float] = {}
        if isinstance(capacity, Mapping):
            given = amounts_in(name, capacity)
            if not given:
                raise ArgumentError(name, given, "name a dimension")
            for called, one in given.items():
                if called not in names:
                    advice = self._advice(called, names)
                    raise ArgumentError(name, capacity, self._names(names), advice)
                changed[called] = amount(f"{name}[{called!r}]", one)
        elif len(names) == 1:
            changed[names[0]] = amount(name, capacity)
        else:
            expected = f"a mapping such as {{{names[0]!r}: {plain(self.bounds[0].capacity)}}}"
            raise self._without_dimension(name, amount(name, capacity, expected=expected))
        goal = []
        for called, bound in zip(names, self.bounds, strict=True):
            one = changed.get(called, bound.capacity)
            slots = bound.kind is BoundKind.SLOTS
            option = f"{name}[{called!r}]" if isinstance(capacity, Mapping) else name
            goal.append((whole_slots(option, one) if slots else one, bound.period))
        windows = zip(names, self.bounds, goal, strict=True)
        check_nested(name, (NamedWindow(one.dimension, it, *new) for it, one, new in windows))
        return self.with_bounds(goal)

    def with_bounds(self, bounds: Sequence[tuple[float, float]]) -> Limits:
        """Return these limits with another capacity and period, in seconds, of each bound. Bursts
        change in proportion. ArgumentError if there is no such limit.

        >>> limits = Limits(calls=InFlight(5), tokens=Rate(600, per=60, burst=60))
        >>> print(limits.with_bounds([(6, 30.0), (300, 30.0)]))
        calls=6slots:max_operation_time=30s,tokens=300/30s:burst=30
        """
        rest = iter(bounds)
        changed = {
            name: one.with_bounds([next(rest) for _ in one.bounds(name)])
            for name, one in self.items()
        }
        limits = type(self).__new__(type(self))
        limits._keep(changed)
        return limits

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the dimensions; ("",) for a plain number."""
        return tuple(self._dimensions)

    def items(self) -> ItemsView[str, Rate | InFlight]:
        """Return each dimension by its name."""
        return self._dimensions.items()

    @property
    def period(self) -> float:
        """The seconds of the longest window; if there is none, the longest time of a call."""
        windows = [one.period for one in self.bounds if one.kind is BoundKind.RATE]
        return max(windows or [one.period for one in self.bounds])

    def smallest(self, amounts: Iterable[float]) -> AnyCost:
        """Return, as a cost, the smallest amount of each dimension, from an amount for each
        bound."""
        found: dict[str, float] = {}
        for bound, one in zip(self.bounds, amounts, strict=True):
            found[bound.dimension] = min(one, found.get(bound.dimension, math.inf))
        return next(iter(found.values())) if self.is_scalar else Costs(found)

    def by_bound(self, cost: AnyCost) -> tuple[float, ...]:
        """Return the amount of a cost, as `normal` returns it, for each bound."""
        if isinstance(cost, NUMBERS):
            return tuple(cost for _ in self.bounds)
        return tuple(cost.get(bound.dimension, 0) for bound in self.bounds)

    def sum(self, costs: Iterable[AnyCost]) -> AnyCost:
        """Return the sum of costs; exact if there is one dimension."""
        return math.fsum(costs) if self.is_scalar else sum(costs, Costs())

    def checked(self, name: str, value: object) -> AnyCost:
        """Return any `value` as a cost that this limit adds up: see `normal`."""
        if type(value) in NUMBERS and 0 <= value <= MAX_AMOUNT and self._is_plain:  # type: ignore[operator]
            return value  # what follows would return the same
        return self.normal(name, checked_cost(name, value))

    def normal(self, name: str, cost: AnyCost) -> AnyCost:
        """Return `cost` as this limit adds it up: a number if there is one dimension, Costs
        otherwise.

        Dimensions that it does not name cost nothing. ArgumentError of the argument `name` if it
        names an unknown dimension, or none although there are several, or a part of a slot.
        """
        if isinstance(cost, Costs):
            for dimension in cost:
                if dimension not in self._dimensions:
                    raise ArgumentError(name, dict(cost), self._names(), self._advice(dimension))
            for dimension in self._slots:
                whole_slots(f"{name}[{dimension!r}]", cost.amount(dimension))
            return cost.amount(self.dimensions[0]) if self.is_scalar else cost
        if self.is_scalar:
            return whole_slots(name, cost) if self._slots else cost
        if not cost:
            return Costs()
        raise self._without_dimension(name, cost)

    def actual(self, name: str, value: object, estimated: AnyCost) -> AnyCost:
        """Return any `value` as the actual cost of a call that was estimated at `estimated`, which
        counts for dimensions that are not named. ArgumentError of the argument `name` if it is not
        zero or more, or if it names an unknown dimension or one that counts calls in flight.

        >>> limits = Limits(requests=Rate(10), tokens=Rate(90_000, per=60))
        >>> limits.actual("actual", {"tokens": 1_034}, Costs({"requests": 1, "tokens": 4_500}))
        Costs(requests=1, tokens=1034)
        """
        return replaced(estimated, self.amounts_of(name, value))

    def amounts_of(self, name: str, value: object) -> float | dict[str, float]:
        """Return the amounts that `value`, an actual cost, names: a number for a limit of one
        dimension, unless it names none. Raise what `actual` raises."""
        if type(value) in NUMBERS and 0 <= value <= MAX_AMOUNT and self._is_plain:  # type: ignore[operator]
            return value  # type: ignore[return-value]  # what follows comes to the same
        if not isinstance(value, Mapping):
            number = amount(name, value, zero=True, expected=A_COST)
            if not self.is_scalar:
                raise self._without_dimension(name, number)
            value = {self.dimensions[0]: number}
        said = amounts_in(name, value)
        for dimension in said:
            if dimension not in self._dimensions:
                raise ArgumentError(name, said, self._names(), self._advice(dimension))
            if dimension in self._slots:
                advice = "calls in flight are counted as long as they last, and cost nothing else"
                raise ArgumentError(name, said, f"leave out {dimension or 'calls'}", advice)
        amounts = {
            dimension: amount(f"{name}[{dimension!r}]", one, zero=True)
            for dimension, one in said.items()
        }
        return next(iter(amounts.values()), amounts) if self.is_scalar else amounts

    def speed(self, capacity: AnyCost) -> AnyCost:
        """Return how much of each rate a holder of `capacity`, which is given as `smallest` returns
        it, gets in a second: by the slowest of its windows. Calls in flight do not depend on time:
        they are left out of Costs, and are infinite as the only dimension.

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
        """Return a calculated `cost` with calls in flight rounded up to whole numbers."""
        if not self._slots:
            return cost
        if isinstance(cost, Costs):
            return Costs({**cost, **{one: math.ceil(cost.amount(one)) for one in self._slots}})
        return math.ceil(cost)

    def ends_of(self, cost: AnyCost) -> tuple[str, ...]:
        """Return the dimensions of `cost` that last as long as a call, so that its end has to be
        reported: slots, and rates that count from the end."""
        if not self._lasting or not cost:
            return ()
        named = cost if isinstance(cost, Costs) else self.dimensions
        return tuple(name for name in self.dimensions if name in named and name in self._lasting)

    def check_call(self, name: str, cost: AnyCost, advice: str) -> None:
        """Refuse the `cost` of a call, as `normal` returns it, that takes no slot although calls
        are counted: such calls would run in addition to those that are counted. A cost of zero is
        allowed, since it is not a call.

        >>> limits = Limits(tokens=Rate(9_000), calls=InFlight(20))
        >>> limits.check_call("cost", Costs({"tokens": 5}), "give its Watcher a batch_cost")
        Traceback (most recent call last):
        limiters._support.validation.ArgumentError: cost must name calls, of which each call takes \
one or more, not {'tokens': 5}; give its Watcher a batch_cost
        """
        if not self._slots or not isinstance(cost, Costs) or not cost:
            return
        if not any(map(cost.amount, self._slots)):
            names = " or ".join(self._slots)
            requirement = f"name {names}, of which each call takes one or more"
            raise ArgumentError(name, dict(cost), requirement, advice)

    def check_longest_call(self, name: str, longest: float, cost: AnyCost | None = None) -> None:
        """Refuse calls that may last longer than the limit's max_operation_time, if they cost
        something in a dimension that lasts as long as a call."""
        for bound in self.bounds:
            counts = bound.dimension in self._lasting and longest > bound.max_operation_time
            if counts and (cost is None or bound.dimension in self.ends_of(cost)):
                limit = self._dimensions[bound.dimension]
                raise ArgumentError(
                    name,
                    longest,
                    f"be at most {plain(bound.max_operation_time)} seconds, the "
                    f"max_operation_time of {bound.dimension or 'the limit'}={limit!r}",
                    "after a kill its calls count for so long; raise that one, or lower this",
                )

    def _without_dimension(self, name: str, number: float) -> ArgumentError:
        first, told = self.dimensions[0], plain(number)
        example = f"as in {{{first!r}: {told}}}, or {first}={told} where it is a text"
        return ArgumentError(name, number, "say of which dimension it is", example)

    @property
    def tightest_windows(self) -> Mapping[str, str]:
        """The name of the window that allows least, for each dimension where it is not the longest.

        >>> Limits(requests=Rate(600, per=60, also=[Rate(10)]), tokens=Rate(5)).tightest_windows
        {'requests': 'requests/1s'}
        """
        names = bound_names((bound.dimension, bound.period) for bound in self.bounds)
        last = {bound.dimension: name for bound, name in zip(self.bounds, names, strict=True)}
        return {dimension: name for dimension, name in last.items() if name != dimension}

    def _names(self, names: Sequence[str] = ()) -> str:
        if "" in self._dimensions:
            return "be a number: the limit has one dimension, without a name"
        *others, last = names or self.dimensions
        return f"be of {', '.join(others)}{' and ' if others else ''}{last} alone"

    def _advice(self, unknown: object, windows: Sequence[str] = ()) -> str:
        """Return a suggestion for an unknown dimension; of a capacity, for one of its `windows`."""
        if "" in self._dimensions:
            return ""
        dimension, is_window, _ = str(unknown).partition("/")
        if is_window and dimension in self._dimensions:
            if windows:
                return f"the longest window of {dimension} is called {dimension}"
            return f"a cost of {dimension} counts in all of its windows"
        return did_you_mean(str(unknown), windows or self._dimensions, f"there is no {unknown}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and self._dimensions == other._dimensions

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))  # dimensions are equal in any order

    def __str__(self) -> str:
        if "" in self._dimensions:
            return dimension_text(self._dimensions[""])
        return ",".join(f"{name}={dimension_text(one)}" for name, one in self.items())

    def __repr__(self) -> str:
        if "" in self._dimensions:
            (bound,) = self.bounds
            return f"Limits.of({exact(bound.capacity)}, {exact(bound.period)})"
        if any(not name.isidentifier() or iskeyword(name) for name in self._dimensions):
            return f"Limits(**{self._dimensions!r})"
        named = ", ".join(f"{name}={one!r}" for name, one in self._dimensions.items())
        return f"Limits({named})"


A_LIMIT = "a number, Limits, or a text such as tokens=90000/60s"
"""The forms of a capacity, in an error."""


def read_limits(option: str, text: str) -> float | Limits:
    """Return the number or the Limits that `text` stands for. ArgumentError of the `option` if
    there are none.

    >>> read_limits("capacity", "20_000"), read_limits("capacity", "200/1m")
    (20000.0, Limits.of(200, 60))
    >>> read_limits("capacity", "tokens=90000/60s,calls=20slots")
    Limits(tokens=Rate(90000, per=60), calls=InFlight(20))
    """
    found = read_number_or_text(text)
    if isinstance(found, float):
        return found
    return nameless(option, text) or Limits(**read_dimensions(option, text).by_name(option))


def nameless(option: str, text: str) -> Limits | None:
    """Return the limits of one dimension without a name that are written with a window; None for
    any other text. ArgumentError of the `option` if there are no such limits."""
    found = _NAMELESS.fullmatch(plain_text(option, text))
    if found is None:
        return None
    with validation.named({"capacity": option, "period": option}):
        return Limits.of(float(found["amount"]), read_seconds(found["per"]) or 0)


def _no_limit(name: str, value: object) -> ArgumentError:
    example = f"Rate({value!r})" if isinstance(value, NUMBERS) else "Rate(600, per=60)"
    advice = f"as in {example}; Limits.parse reads a text"
    return ArgumentError(name, value, "be a Rate or InFlight", advice)


def _check_name(name: object) -> None:
    """Refuse a name that would be ambiguous where limits are written as a text, or that would
    affect a terminal, a line of a log or a metric where it is shown."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArgumentError(
            "the name of a dimension",
            name,
            f"begin with a letter of a to z or A to Z, and have at most {LONGEST_NAME} of these, "
            "digits, _ . and -",
        )
