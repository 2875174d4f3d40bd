"""Limits as people write them: on a command line, in a variable or a file, in an option of Spark.

    requests=600/60s+10/1s,tokens=90000/60s:counts=end:max_operation_time=30s,calls=20slots

A dimension is a rate, with each of its windows as AMOUNT/DURATION, or a number of calls in flight.
What else its Rate or InFlight takes follows behind colons, under the same name. This is the only
place where that is read, and the only one where it is written. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from limiters._plain_numbers import exact
from limiters._rates import MAX_OPERATION_TIME, BurstSeconds, InFlight, Rate, seconds
from limiters._support import durations, validation
from limiters._support.near_names import did_you_mean
from limiters._support.validation import MAX_AMOUNT, ArgumentError

EXAMPLE = "requests=600/60s+10/1s,tokens=90000/60s,calls=20slots"

_BETWEEN_WINDOWS = re.compile(r"(?<![eE])\+")
"""Not the sign in 1e+16."""

_PLAIN = re.compile(r"[ -~\n]*")

_SLOTS = re.compile(r"(.+?)\s*slots?")


_IN_WORDS = {"also": "a shorter window", "per": "a window", "n": "a number of slots"}
"""Names of the parameters of Rate and InFlight in a text."""


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """One window of a rate."""

    amount: float
    per: float | None
    """Its length in seconds; None if only an amount is written."""


@dataclass(frozen=True, slots=True)
class WrittenDimension:
    """One dimension in a text: not all that a limit needs, if it is there already."""

    name: str
    written: str
    windows: tuple[WrittenWindow, ...] = ()
    slots: int | None = None
    """How many calls in flight; None for a rate."""
    options: Mapping[str, Any] | None = None

    def with_windows_of(self, other: WrittenDimension) -> WrittenDimension | None:
        """Both as one rate, which may be written window by window; None if they are none."""
        if self.slots is not None or other.slots is not None or (self.options and other.options):
            return None
        windows, options = self.windows + other.windows, self.options or other.options
        return WrittenDimension(
            self.name, f"{self.written},{other.written}", windows, None, options
        )

    def limit(self, option: str) -> Rate | InFlight:
        """The limit that it is, complete. ArgumentError of the `option` if there is no such limit,
        and for an amount without a window: it might be a rate, or a number of calls."""
        for window in self.windows:
            if window.per is None:
                raise self._without_window(option, window.amount)
        try:
            if self.slots is not None:
                return InFlight(self.slots, **(self.options or {}))
            outer, *inner = sorted(
                (Rate(one.amount, one.per) for one in self.windows if one.per is not None),
                key=lambda one: -validation.in_seconds(one.per),
            )
            return Rate(outer.capacity, outer.per, inner, **(self.options or {}))
        except ArgumentError as error:
            what = _IN_WORDS.get(error.parameter, error.parameter)
            why = f": {error.advice}" if error.advice else ""
            raise ArgumentError(
                option,
                self.written,
                f"be a possible limit for {self.name}",
                f"{what} must {error.requirement}{why}",
            ) from None

    def _without_window(self, option: str, amount: float) -> ArgumentError:
        written = exact(amount)
        ways = f"with its window if {self.name} is a rate, as in {self.name}={written}/1s"
        if len(self.windows) == 1 and not amount % 1:
            ways += f", or as {self.name}={written}slots if it is a number of calls in flight"
        return ArgumentError(option, self.written, f"say what {written} counts", f"write it {ways}")


@dataclass(frozen=True, slots=True)
class WrittenLimits:
    """A text about some dimensions of a limit, or about all."""

    dimensions: tuple[WrittenDimension, ...]

    def by_name(self, option: str) -> dict[str, Rate | InFlight]:
        """The limits that they are if this is all, by the names of their dimensions."""
        return {one.name: one.limit(option) for one in self.dimensions}


def read_number_or_text(text: str) -> float | str:
    """A number if `text` is one, else the text: what it says is checked with the option.

    >>> read_number_or_text("2_000"), read_number_or_text("calls=20slots")
    (2000.0, 'calls=20slots')
    """
    try:
        return float(text) if text.isascii() else text
    except ValueError:
        return text


def plain_text(option: str, text: str) -> str:
    """Return `text`, which has only characters that limits are written in: so errors can show its
    names as they are. ArgumentError of the `option` otherwise."""
    if not _PLAIN.fullmatch(text):
        advice = "letters and digits are those of ASCII"
        raise ArgumentError(option, text, f"be limits by dimension, as in {EXAMPLE}", advice)
    return text


def read_dimensions(option: str, text: str) -> WrittenLimits:
    """Read each dimension of `text`."""
    found: dict[str, WrittenDimension] = {}
    for part in plain_text(option, text).split(","):
        one = _read_dimension(option, part.strip())
        if one.name in found:
            both = found[one.name].with_windows_of(one)
            if both is None:
                advice = "further windows of a rate are joined by +, as in a=600/60s+10/1s"
                raise ArgumentError(option, text, f"name {one.name} once", advice)
            one = both
        found[one.name] = one
    return WrittenLimits(tuple(found.values()))


def _read_dimension(option: str, text: str) -> WrittenDimension:
    name, is_named, value = (part.strip() for part in text.partition("="))
    name, is_window, per = (part.strip() for part in name.partition("/"))
    if not is_named or not name:
        raise ArgumentError(
            option,
            text,
            f"be a number, or limits by dimension, as in {EXAMPLE}",
            "a number here has no commas, and a window has a dimension"
            if text[:1].isdigit()
            else "",
        )
    limit, *more = (part.strip() for part in value.split(":"))
    if "=" in limit:
        raise ArgumentError(option, text, "separate dimensions by commas", f"as in {EXAMPLE}")
    if is_window:  # as windows are called where they are shown
        if "/" in limit:
            advice = f"{name}/{per} is the window of {per} already"
            raise ArgumentError(option, text, f"say the window of {name} once", advice)
        limit = f"{limit}/{per}"
    slots = _SLOTS.fullmatch(limit)
    if slots:
        options = dict(_read_options(option, name, text, more, _OF_SLOTS))
        return WrittenDimension(name, text, (), _whole(option, name, text, slots[1]), options)
    windows = tuple(_window(option, name, text, one) for one in _BETWEEN_WINDOWS.split(limit))
    options = dict(_read_options(option, name, text, more, _OF_RATES))
    return WrittenDimension(name, text, windows, None, options)


def _window(option: str, name: str, text: str, window: str) -> WrittenWindow:
    amount, is_per, per = (part.strip() for part in window.partition("/"))
    found = read_number_or_text(amount)
    duration = durations.read_seconds(per) if is_per else None
    if isinstance(found, float) and not 0 < found <= MAX_AMOUNT:
        raise ArgumentError(
            option, text, f"have an amount of more than zero and at most {MAX_AMOUNT:g} for {name}"
        )
    if isinstance(found, str) or (is_per and not duration):
        raise ArgumentError(
            option,
            text,
            f"have an amount and its window for {name}, as in {name}=600/60s, or a number of calls "
            f"in flight, as in {name}=20slots",
            f"a window is as long as one of {durations.EXAMPLES}" if is_per else "",
        )
    return WrittenWindow(found, duration)


def _whole(option: str, name: str, text: str, slots: str) -> int:
    found = read_number_or_text(slots)
    if isinstance(found, str) or found < 1 or found % 1:
        raise ArgumentError(
            option,
            text,
            f"have a whole number of slots for {name}, at least one",
            "a slot is a call in flight",
        )
    return int(found)


Read = Callable[[str], Any]


def _read_options(
    option: str, name: str, text: str, given: list[str], known: Mapping[str, Read]
) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for one in given:
        called, _, value = (part.strip() for part in one.partition("="))
        called = called.replace("-", "_")
        if called not in known:
            raise ArgumentError(
                option,
                text,
                f"have no {called or one!r} for {name}",
                did_you_mean(called, known, f"there are {', '.join(known)}"),
            )
        found = known[called](value)
        if found is None:
            raise ArgumentError(
                option, text, f"have a value for {called} of {name} that can be read"
            )
        if called in seen:
            raise ArgumentError(option, text, f"say {called} of {name} once")
        seen.add(called)
        yield called, found


def _read_burst(text: str) -> float | BurstSeconds | None:
    found = read_number_or_text(text)
    if isinstance(found, float):
        return found
    duration = durations.read_seconds(text)
    return seconds(duration) if duration else None


def _read_flag(text: str) -> bool | None:
    return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower())


_OF_RATES: Mapping[str, Read] = {
    "burst": _read_burst,
    "counts": str,
    "max_operation_time": durations.read_seconds,
}
_OF_SLOTS: Mapping[str, Read] = {
    "strict": _read_flag,
    "max_operation_time": durations.read_seconds,
}


def dimension_text(limit: Rate | InFlight, *, usual: bool = False) -> str:
    """One dimension as it can be read again; `usual`: also how long calls may last by default."""
    options = (f"{name}={value}" for name, value in _options(limit, usual=usual))
    return ":".join([_amounts(limit), *options])


def _amounts(limit: Rate | InFlight) -> str:
    if isinstance(limit, InFlight):
        return f"{limit.n}slots"
    return "+".join(
        f"{exact(one.capacity)}/{durations.written(validation.in_seconds(one.per))}"
        for one in limit.windows
    )


def _options(limit: Rate | InFlight, *, usual: bool) -> Iterator[tuple[str, str]]:
    if isinstance(limit, InFlight):
        if not limit.strict:
            yield "strict", "no"
    else:
        if isinstance(limit.burst, BurstSeconds):
            yield "burst", durations.written(limit.burst.seconds)
        elif limit.burst is not None:
            yield "burst", exact(limit.burst)
        if limit.counts != "start":
            yield "counts", limit.counts
    longest = limit.max_operation_time
    if longest is not None and (usual or longest != MAX_OPERATION_TIME):
        yield "max_operation_time", durations.written(validation.in_seconds(longest))
