"""What an operator changes of a limit: by the names of its dimensions, or by a number. Pure.

`_terms_change` is the same by bounds, as coordinators take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from limiters._limits_text import (
    WrittenDimension,
    WrittenLimits,
    read_dimensions,
    read_number_or_text,
)
from limiters._plain_numbers import plain
from limiters._support.near_names import did_you_mean
from limiters._support.nested_windows import NamedWindow, check_nested
from limiters._support.options import ConvertedOptions, about
from limiters._support.validation import ArgumentError, amount, text
from limiters.leases._bounds import DEFAULT_PARTS, amount_text, terms_of_limits, usual_factor
from limiters.leases._layout import BoundLayout, names_of, parts_of
from limiters.leases._messages import BoundTerms, Terms, milliseconds, shared_amount
from limiters.leases._options import checked_lease, checked_parts, checked_period
from limiters.leases._terms_change import BoundChange, LimitChange
from limiters.limits import Limits, nameless

Amounts = float | Mapping[str, float]
Capacity = float | Mapping[str, float] | Limits | WrittenLimits

A_CHANGE = "a number, or a mapping such as {'tokens': 120000}"
"""The forms of a changed capacity, in an error."""

WITHOUT_NAME = "be a number: the limit has one dimension, without a name"

OTHER_DIMENSIONS = (
    "for other dimensions, delete the limit and set it again, or dispatcher limit set --start-over"
)


def _capacity(name: str, value: object) -> Capacity:
    if isinstance(value, str):
        found = read_number_or_text(value)
        one = nameless(name, value) if isinstance(found, str) else None
        if one is not None:
            advice = f"its window is the period, {plain(one.period)} seconds"
            raise ArgumentError(name, value, "be a number where dimensions have no names", advice)
        return read_dimensions(name, value) if isinstance(found, str) else _by_name(name, found)
    if isinstance(value, (Limits, WrittenLimits)):
        return value
    return _by_name(name, value)


def _by_name(name: str, value: object) -> Amounts:
    """`value` as an amount, or as those of bounds by their names."""
    if not isinstance(value, Mapping):
        return shared_amount(name, value, expected=A_CHANGE)
    if not value:
        raise ArgumentError(name, value, "name a dimension")
    return {
        text(f"a dimension of {name}", dimension): shared_amount(f"{name}[{dimension!r}]", one)
        for dimension, one in value.items()
    }


@dataclass(frozen=True, kw_only=True)
class TermsChange(ConvertedOptions):
    """What an operator changes of a limit, in seconds and cost: what is None stays as it is."""

    capacity: float | Limits | Mapping[str, float] | None = field(
        default=None,
        metadata=about(
            "what all instances may spend together in a period; of a limit of several dimensions, "
            "those that change, as in tokens=120000,calls=30slots",
            _capacity,
            read=read_number_or_text,
        ),
    )
    factor: float | None = field(
        default=None, metadata=about("what one partition is worth", amount)
    )
    parts: int | None = field(
        default=None,
        metadata=about(
            "the number of partitions in which the limit is shown, in place of `factor`",
            checked_parts,
        ),
    )
    period: float | None = field(
        default=None,
        metadata=about("the time in which the capacity may be spent", checked_period, unit="s"),
    )
    lease_time: float | None = field(
        default=None,
        metadata=about(
            "for how long an instance holds what it was granted, unless it renews",
            checked_lease,
            unit="s",
        ),
    )
    ramp: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about("a raised capacity rises by at most so much a second", _by_name),
    )

    @property
    def _said(self) -> Capacity | None:
        """The capacity as it was checked: a text was read."""
        return self.capacity

    @property
    def names_dimensions(self) -> bool:
        """Whether it has to be known which dimensions the limit has, or how much it allows."""
        named = isinstance(self._said, (Limits, Mapping, WrittenLimits))
        shown = self.factor is not None or self.parts is not None
        return named or shown or isinstance(self.ramp, Mapping)

    def of(self, known: Terms | None) -> LimitChange:
        """The same as a coordinator takes it, of a limit that has these terms; None where they do
        not matter, or there is none. ArgumentError for what the limit cannot become."""
        lease = 0 if self.lease_time is None else milliseconds(self.lease_time)
        self._check_each_is_used()
        limits = self._limits(known)
        if limits is not None:
            if "" not in limits.dimensions:
                self._check_names_suffice()
            terms = terms_of_limits(limits, usual_factor(limits, self.parts), lease)
            layout, changes = terms.layout, [BoundChange.whole(one) for one in terms.bounds]
            if known is None or known.layout != layout:  # all is said: it is new, or starts over
                factor = self.factor or terms.factor
                lease = lease or (known.lease if known is not None else 0)
            else:
                factor = self._factor(known, changes)
        else:
            layout, changes = known.layout if known is not None else "", self._changes(known)
            factor = self._factor(known, changes)
        changes = [
            replace(change, ramp=ramp / 1000)
            for change, ramp in zip(changes, self._ramps(known, len(changes)), strict=True)
        ]
        return LimitChange(tuple(changes), factor, lease, layout)

    def _check_each_is_used(self) -> None:
        """Refuse what would be accepted and not used."""
        if self.factor is not None and self.parts is not None:
            advice = "a partition is worth the capacity, divided by their number"
            raise ArgumentError("factor", self.factor, "be left out where parts is given", advice)
        if self.ramp and self.capacity is None:
            raise ArgumentError(
                "ramp", self.ramp, "go with a capacity", "it is how fast that rises"
            )

    def _factor(self, known: Terms | None, changes: Sequence[BoundChange]) -> float:
        """What a partition will be worth; 0 if that stays. Where dimensions have names, their
        number stays, whatever becomes of the capacity of the first one."""
        before = 0.0 if known is None else known.capacity
        goal = changes[0].capacity if changes and changes[0].capacity else before
        if self.parts is not None:
            return goal / self.parts
        if self.factor is None and known is not None and known.layout and goal != before:
            return known.factor * (goal / before)
        return self.factor or 0.0

    def _limits(self, known: Terms | None) -> Limits | None:
        """The limits that it defines as a whole, if it does."""
        if isinstance(self._said, Limits):
            return self._said if known is None else _in_order_of(known, self._said)
        if isinstance(self._said, WrittenLimits) and known is None:
            return Limits(**self._said.by_name("capacity"))
        return None

    def _check_names_suffice(self) -> None:
        """Refuse what is said of one rate without a name, where dimensions have names."""
        if self.factor is not None:
            raise ArgumentError(
                "factor",
                self.factor,
                "be left out where dimensions have names",
                f"parts={DEFAULT_PARTS} is the number of partitions in which the limit is shown",
            )
        if self.period is not None:
            raise ArgumentError(
                "period",
                self.period,
                "be left out where dimensions have names",
                "a window is written with its amount, as in tokens=90000/30s",
            )

    def _changes(self, known: Terms | None) -> list[BoundChange]:
        """What becomes of each bound of a limit with these terms; none of them if all stay."""
        capacity = self._said
        if known is None or len(known.bounds) == 1:
            if capacity is None or isinstance(capacity, (int, float)):
                period = 0 if self.period is None else milliseconds(self.period)
                slots = known is not None and known.bounds[0].slots
                change = BoundChange(capacity or 0.0, period, slots=slots)
                if known is not None and capacity:
                    self._check_goal(known, [change])
                return [change] if capacity or period else []
            if known is None:
                return []  # it does not say all that a new limit needs
        assert known is not None
        self._check_names_suffice()
        names = names_of(known.layout, [one.period for one in known.bounds])
        if capacity is None:
            return []
        changes = [BoundChange(slots=one.slots) for one in known.bounds]
        if isinstance(capacity, Mapping):
            for at, one in _at_names("capacity", capacity, names):
                changes[at] = replace(changes[at], capacity=one)
        elif isinstance(capacity, WrittenLimits):
            for written in capacity.dimensions:
                for at, change in _of_dimension(written, known):
                    changes[at] = change
        elif not isinstance(capacity, Limits):  # those are no changes
            said = plain(capacity)
            raise ArgumentError(
                "capacity",
                capacity,
                f"say of which dimension it is, {_either(names)}",
                f"as in {{{names[0]!r}: {said}}}, or {names[0]}={said} where it is a text",
            )
        self._check_goal(known, changes)
        return changes

    def _check_goal(self, known: Terms, changes: Sequence[BoundChange]) -> None:
        """Refuses parts of slots, and a window that a longer one makes meaningless."""
        goal = [one.applied_to(bound) for one, bound in zip(changes, known.bounds, strict=True)]
        names = names_of(known.layout, [one.period for one in known.bounds])
        for name, one in zip(names, goal, strict=True):
            if one.slots and one.capacity % 1:
                raise ArgumentError(
                    "capacity",
                    one.capacity,
                    f"be a whole number for {name}",
                    "it is a number of calls in flight",
                )
        names = names_of(known.layout, [one.period for one in goal])
        check_nested(
            "capacity",
            (
                NamedWindow(part.dimension, name, one.capacity, one.period / 1000)
                for part, name, one in zip(parts_of(known.layout), names, goal, strict=True)
            ),
        )

    def _ramps(self, known: Terms | None, bounds: int) -> list[float]:
        ramp = self.ramp or 0.0
        if not isinstance(ramp, Mapping):
            return [ramp] * bounds
        ramps = [0.0] * bounds
        if known is not None and bounds == len(known.bounds):
            names = names_of(known.layout, [one.period for one in known.bounds])
            for at, one in _at_names("ramp", ramp, names):
                ramps[at] = one
        return ramps


def _in_order_of(known: Terms, limits: Limits) -> Limits:
    """The same limits with their dimensions in the order in which these terms have them: another
    order would be another layout, and the limit would start over."""
    order = dict.fromkeys(part.dimension for part in parts_of(known.layout))
    named = dict(limits.items())
    if "" in named or order.keys() != named.keys():
        return limits
    return Limits(**{name: named[name] for name in order})


def _at_names(
    option: str, amounts: Mapping[str, float], names: Sequence[str]
) -> Iterator[tuple[int, float]]:
    """Each amount, with the place of the bound that has the name."""
    if "" in names:
        raise ArgumentError(option, dict(amounts), WITHOUT_NAME, OTHER_DIMENSIONS)
    for name, one in amounts.items():
        if name not in names:
            advice = did_you_mean(name, names, OTHER_DIMENSIONS)
            raise ArgumentError(option, name, f"be of {_either(names)}", advice)
        yield names.index(name), one


def _of_dimension(written: WrittenDimension, known: Terms) -> Iterator[tuple[int, BoundChange]]:
    """What is written of a dimension, for each of its bounds that changes."""
    parts = parts_of(known.layout)
    places = [at for at, part in enumerate(parts) if part.dimension == written.name]
    if not places:
        names = dict.fromkeys(part.dimension for part in parts)
        if "" in names:
            raise ArgumentError(
                "capacity",
                written.written,
                WITHOUT_NAME,
                OTHER_DIMENSIONS,
            )
        advice = did_you_mean(written.name, names, OTHER_DIMENSIONS)
        raise ArgumentError("capacity", written.written, f"name {_either(list(names))}", advice)
    stored = [known.bounds[at] for at in places]
    _check_kind(written, parts[places[0]], stored)
    if stored[0].slots:
        (at,) = places
        slots = written.slots or written.windows[0].amount
        longest = (written.options or {}).get("max_operation_time")
        running = 0 if longest is None else milliseconds(longest)
        yield at, BoundChange(float(slots), running, slots=True)
        return
    longest = (written.options or {}).get("max_operation_time")
    changed = {at: known.bounds[at] for at in places}
    for at, one in _windows(written, places, stored):
        changed[at] = one.applied_to(known.bounds[at])
        if longest is None:
            yield at, one
    if longest is not None:  # of all windows, as each counts calls from their end
        for at, terms in changed.items():
            running = milliseconds(longest)
            goal = BoundTerms.rate(terms.capacity, terms.period, running=running)
            yield at, BoundChange.whole(goal)


def _check_kind(written: WrittenDimension, part: BoundLayout, stored: Sequence[BoundTerms]) -> None:
    """Refuses what would make another kind of limit of a dimension."""
    name, options = written.name, written.options or {}
    is_rate = written.slots is None
    if stored[0].slots and (len(written.windows) > 1 or any(it.per for it in written.windows)):
        raise ArgumentError(
            "capacity",
            written.written,
            f"be a number of calls in flight for {name}, as in {name}=20slots",
            OTHER_DIMENSIONS,
        )
    if not stored[0].slots and not is_rate:
        raise ArgumentError(
            "capacity",
            written.written,
            f"be an amount in a window for {name}, as in {name}=600/60s",
            OTHER_DIMENSIONS,
        )
    if "burst" in options:
        raise ArgumentError(
            "capacity",
            written.written,
            f"leave out the burst of {name}",
            "each instance has its own: say it where the instance is made",
        )
    stays: dict[str, Any] = {"strict": part.strict} if part.slots else {"counts": part.counts}
    _completed(written, stays, stored).limit("capacity")  # which there may be
    unlike = [called for called, one in stays.items() if options.get(called, one) != one]
    if unlike:
        raise ArgumentError(
            "capacity",
            written.written,
            f"leave {unlike[0]} of {name} as it is",
            OTHER_DIMENSIONS,
        )


def _completed(
    written: WrittenDimension, stays: Mapping[str, Any], stored: Sequence[BoundTerms]
) -> WrittenDimension:
    """A change of a dimension with what is stored in place of what is not written. Each of several
    windows has to be written with its length: none of them is the usual one."""
    options = {**stays, **(written.options or {})}
    windows = written.windows
    if stored[0].slots:
        slots = written.slots or max(1, int(windows[0].amount))
        return replace(written, windows=(), slots=slots, options=options)
    if len(windows) == 1 and windows[0].per is None:
        windows = (replace(windows[0], per=stored[0].period / 1000),)
    return replace(written, windows=windows, options=options)


def _windows(
    written: WrittenDimension, places: Sequence[int], stored: Sequence[BoundTerms]
) -> Iterator[tuple[int, BoundChange]]:
    """Which windows are meant: those of the same length; or all of them, the longest first; or the
    longest, if none is named."""
    windows = written.windows
    if len(windows) == 1 and windows[0].per is None:
        yield places[0], BoundChange(windows[0].amount)
        return
    periods = [milliseconds(checked_period("per", one.per)) for one in windows]
    there = {one.period: at for one, at in zip(stored, places, strict=True)}
    pairs = sorted(zip(periods, windows, strict=True), key=lambda pair: -pair[0])
    if all(period in there for period in periods):
        for period, one in pairs:
            yield there[period], BoundChange(one.amount)
    elif len(windows) == len(places):
        for at, (period, one) in zip(places, pairs, strict=True):
            yield at, BoundChange(one.amount, period)
    else:
        has = "+".join(map(amount_text, stored))
        raise ArgumentError(
            "capacity",
            written.written,
            f"have windows that {written.name} has, or all of them",
            f"it is {written.name}={has} now; {OTHER_DIMENSIONS}",
        )


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
