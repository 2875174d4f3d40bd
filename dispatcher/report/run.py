"""Run: the recorded data of one run, to be drawn. Plain values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from limiters.verifier import Capacity, Verdict, verify


class Entry(NamedTuple):
    """One batch: when it began, its instance, its cost; and if that is known, how many records it
    had, and for how many seconds they had waited."""

    at: float
    instance: str
    cost: float
    records: int | None = None
    waited: float | None = None


@dataclass(frozen=True)
class Run:
    """One run. Times are seconds, all of the same clock.

    * `capacity`: the limit of all instances together in one `period`, or the sequence of limits
      that were in force, as limiters.verifier takes them.
    * `holdings`: the share of the limit, from 0 to 1, that an instance held from a time on.
    * `partitions`: the number of partitions, if shares are to be shown in these.
    * `refused`: when the datastore refused a request; None if that was not counted.
    * `settling`: see limiters.verifier.verify.
    * `marks`: times and texts of events, drawn as lines.
    * `facts`: the table of the page, names and values; None for the verifier's result.
    """

    title: str
    capacity: Capacity
    entries: Sequence[Entry]
    period: float = 1.0
    holdings: Sequence[tuple[float, Mapping[str, float]]] = ()
    partitions: int | None = None
    refused: Sequence[float] | None = None
    settling: float = 0.0
    marks: Sequence[tuple[float, str]] = ()
    facts: Sequence[tuple[str, str]] | None = None
    verdict: Verdict = field(init=False)
    """The result of the verifier, if it was run."""

    def __post_init__(self) -> None:
        log = [(one.at, one.instance, one.cost) for one in self.entries]
        verdict = verify(log, self.capacity, period=self.period, settling=self.settling)
        object.__setattr__(self, "verdict", verdict)

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last time of the recorded data."""
        times = [*(one.at for one in self.entries), *(at for at, _ in self.holdings)]
        times += [*(self.refused or ()), *(at for at, _ in self.marks)]
        return (min(times), max(times)) if times else (0.0, 0.0)

    @property
    def instances(self) -> list[str]:
        """All instances, in order."""
        names = {one.instance for one in self.entries}
        return sorted(names.union(*(held for _, held in self.holdings)), key=_natural)

    @property
    def limits(self) -> list[tuple[float, float]]:
        """The capacities, each with the time from which it applies."""
        if isinstance(self.capacity, (int, float)):
            return [(-math.inf, self.capacity)]
        first, *others = sorted(self.capacity)
        return [(-math.inf, first[1]), *others]


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which i10 comes after i9. Numbers stay text: Python limits the digits of an
    int."""
    parts = ("".join(group) for _, group in itertools.groupby(name, str.isdecimal))
    return [_number(part) if part.isdecimal() else (-1, part) for part in parts]


def _number(digits: str) -> tuple[int, str]:
    digits = digits.lstrip("0")
    return len(digits), digits
