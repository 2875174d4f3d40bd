"""Run: the recorded data of one run, to be drawn. Plain values."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from limiters._plain_numbers import plain
from limiters.limits import InFlight, Limits
from limiters.verifier import Capacity, Verdict, verify, verify_limits


class Entry(NamedTuple):
    """One batch: when it began, its instance, its actual cost; and if that is known, how many
    records it had, for how many seconds they had waited, when its callback returned, and the
    estimate that was charged, if the cost was known only afterwards."""

    at: float
    instance: str
    cost: float
    records: int | None = None
    waited: float | None = None
    end: float | None = None
    estimated: float | None = None


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
        object.__setattr__(self, "verdict", self._judged())

    def _judged(self) -> Verdict:
        log = [
            (one.at, one.instance, one.cost if one.estimated is None else one.estimated, one.cost)
            for one in self.entries
        ]
        return verify(log, self.capacity, period=self.period, settling=self.settling)

    @property
    def quantity(self) -> str:
        """Return the quantity that its chart shows."""
        return f"cost in the {'second' if self.period == 1 else 'period'} before"

    def columns(self, instance: str, ends: Sequence[float]) -> list[float]:
        """Return what `instance` spent in the windows that end at these times."""
        own = sorted((one.at, one.cost) for one in self.entries if one.instance == instance)
        times = [at for at, _ in own]
        sums = [0.0, *accumulate(cost for _, cost in own)]
        return [
            sums[bisect_right(times, at)] - sums[bisect_right(times, at - self.period)]
            for at in ends
        ]

    def facts_of_verdict(self) -> Iterator[tuple[str, str]]:
        """Return the verifier's result as rows of a table: names and values."""
        verdict = self.verdict
        yield "Windows over the limit", f"{verdict.over:,} of {verdict.windows:,}"
        yield "Fullest window", f"{verdict.worst:.4f} of the limit"
        yield "Used after the first batch", f"{verdict.used:.4f} of {self._used_of(verdict)}"
        if any(one.estimated is not None for one in self.entries):
            yield "Estimated cost", f"{verdict.estimated:,.6g}"
            of_it = f"{verdict.cost_ratio:.4f} of the estimate"
            yield "Actual cost", f"{verdict.total:,.6g}, {of_it}"

    def _used_of(self, verdict: Verdict) -> str:
        if verdict.is_short:
            return f"one window: the log is shorter than its {plain(self.period)} s"
        return "the limit: it began with a burst" if verdict.used > 1 else "the limit"

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


@dataclass(frozen=True)
class CallsRun(Run):
    """One run under a limit of calls in flight: `capacity` is their number, a cost is how many
    calls a batch takes, and each entry has an `end`, or may run for a period."""

    def _judged(self) -> Verdict:
        log = [(one.at, one.instance, one.cost, one.end) for one in self.entries]
        steps = [
            (at, Limits(calls=InFlight(round(calls), max_operation_time=self.period)))
            for at, calls in self.limits
        ]
        (verdict,) = verify_limits(log, steps, settling=self.settling).of("calls")
        return verdict

    @property
    def quantity(self) -> str:
        """Return the quantity that its chart shows."""
        return "most calls in flight"

    def columns(self, instance: str, ends: Sequence[float]) -> list[float]:
        """Return how many calls of `instance` ran when most of all instances did, in the time from
        one of these times to the next."""
        changes = sorted(
            change
            for one in self.entries
            for change in (
                (one.at, 1, one.instance, one.cost),
                (self._end_of(one), 0, one.instance, -one.cost),  # first, where both come together
            )
        )
        found = []
        running, own, place = 0.0, 0.0, 0
        for end in ends:
            most, of_it = running, own
            while place < len(changes) and changes[place][0] <= end:
                _, _, who, calls = changes[place]
                running, own = running + calls, own + calls * (who == instance)
                if running > most:
                    most, of_it = running, own
                place += 1
            found.append(of_it)
        return found

    def _end_of(self, entry: Entry) -> float:
        return entry.at + self.period if entry.end is None else entry.end

    def facts_of_verdict(self) -> Iterator[tuple[str, str]]:
        """Return the verifier's result as rows of a table: names and values."""
        verdict = self.verdict
        yield "Calls beyond the limit", f"{verdict.over:,} of {verdict.windows:,}"
        yield "Most calls in flight", f"{verdict.worst:.4f} of the limit"
        yield "Busy", f"{verdict.used:.4f} of the limit"


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which i10 comes after i9. Numbers stay text: Python limits the digits of an
    int."""
    parts = ("".join(group) for _, group in itertools.groupby(name, str.isdecimal))
    return [_number(part) if part.isdecimal() else (-1, part) for part in parts]


def _number(digits: str) -> tuple[int, str]:
    digits = digits.lstrip("0")
    return len(digits), digits
