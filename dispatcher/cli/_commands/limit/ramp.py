"""`--ramp` of `dispatcher limit set`: how fast a raised capacity rises. Pure."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass

from limiters._support.durations import read_seconds
from limiters._support.near_names import did_you_mean
from limiters._support.validation import ArgumentError
from limiters.leases._messages import Terms, ramp_of
from limiters.leases._terms_change import LimitChange
from limiters.leases.protocol import LimitView, dimensions_of

FORMS = "1000/60 for no more than 1,000 over 60 s, or 30m for all of it in 30 minutes"


@dataclass(frozen=True, slots=True)
class OneRamp:
    """The ramp of one dimension: at most `amount` in `seconds`, or the whole rise in `seconds`."""

    amount: float | None
    seconds: float

    def check(self) -> None:
        """Raise ArgumentError if the ramp is not possible."""
        if self.amount is not None:
            ramp_of((self.amount, self.seconds))

    def a_second(self, rise: float) -> float:
        """Return the largest rise in one second of a capacity that changes by `rise`; 0 for no
        bound."""
        if self.amount is not None:
            return ramp_of((self.amount, self.seconds)) or 0.0
        return max(0.0, rise) / self.seconds


Ramp = OneRamp | Mapping[str, OneRamp]
"""One ramp for all dimensions, or ramps by the names of dimensions or windows."""


def read_ramp(text: str) -> Ramp:
    """Return the ramp that `text` stands for.

    >>> read_ramp("1000/60"), read_ramp("tokens=30m")
    (OneRamp(amount=1000.0, seconds=60.0), {'tokens': OneRamp(amount=None, seconds=1800.0)})
    """
    if "=" not in text:
        return _one(text)
    parts = (part.partition("=") for part in text.split(","))
    return {name.strip(): _one(value.strip()) for name, _, value in parts}


def _one(text: str) -> OneRamp:
    amount, slash, over = text.partition("/")
    if slash:
        # Seconds may be any number here, so that the library raises an error about wrong ones.
        seconds = read_seconds(over)
        return OneRamp(float(amount), float(over) if seconds is None else seconds)
    seconds = read_seconds(text)
    if not seconds or text[-1].isdigit():
        raise ArgumentTypeError(f"it is like {FORMS}")
    return OneRamp(None, seconds)


def check(ramp: Ramp | None) -> None:
    """Raise ArgumentError if the ramp is not possible, before a request is sent."""
    for one in ramp.values() if isinstance(ramp, Mapping) else [ramp] if ramp is not None else ():
        one.check()


def by_second(ramp: Ramp, change: LimitChange, view: LimitView) -> Mapping[str, float] | float:
    """Return by how much the limit rises in a second at most, or each of its bounds by its name."""
    names, goal = dimensions_of(view.terms), _goal(change, view.terms)
    rises = [to - bound.capacity for to, bound in zip(goal, view.bounds, strict=True)]
    if isinstance(ramp, OneRamp):
        if len(names) == 1:
            return ramp.a_second(rises[0])
        if ramp.amount is not None:
            said = f"{ramp.amount:g}/{ramp.seconds:g}"
            advice = f"as in {names[0]}={said}, or a duration for all, as in 30m"
            raise ArgumentError("ramp", said, "say of which dimension the amount is", advice)
        ramp = dict.fromkeys(names, ramp)
    unknown = [name for name in ramp if name not in names]
    if unknown:
        there = ", ".join(names) if names != ("",) else "no dimension: the limit has one, unnamed"
        raise ArgumentError("ramp", unknown[0], f"be of {there}", did_you_mean(unknown[0], names))
    return {
        name: ramp[name].a_second(rise)
        for name, rise in zip(names, rises, strict=True)
        if name in ramp and ramp[name].a_second(rise)
    }


def _goal(change: LimitChange, known: Terms) -> list[float]:
    return [one.capacity for one in change.applied_to(known).bounds]
