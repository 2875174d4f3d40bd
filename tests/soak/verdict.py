"""The result of a soak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from limiters.verifier import Verdict
from tests.soak.arrivals import PATHS, Arrivals
from tests.soak.handlers import IN_ORDER, TOGETHER

FIRED = {"RedisAway", "NobodyConsumes", "DeadLetters"}
"""Alerts that must fire because of the troubles."""
NEVER_FIRED = {"Throttled", "ClockDrift", "SparkRowsRejected"}


@dataclass(frozen=True)
class Outcome:
    """The input, the arrivals, and the alerts of a soak."""

    arrivals: Arrivals
    expected: Mapping[str, int]
    """How many rows there were for each way."""
    refused: int
    spent: Verdict
    left: int
    """How many reminders are left on the Timeline."""
    alerts: set[str] | None
    """The alerts that have fired; None if Prometheus did not watch."""
    unresolved: set[str]
    troubles: list[str]
    spark_kills: int
    at_once: int
    """How many rows were in flight, at most, in the processes that one kill of Spark ends."""
    lasted: float

    def problems(self) -> Iterator[str]:
        """Iterate over the problems, each one a sentence. There are none if all laws held."""
        for path, expected in self.expected.items():
            if lost := expected - len(self.arrivals.rows[path]):
                yield f"{lost:,} of {expected:,} rows were lost on the way {path!r}"
        if self.arrivals.out_of_order:
            count, first = len(self.arrivals.out_of_order), self.arrivals.out_of_order[0]
            yield f"{count:,} rows came out of order; the first: {first}"
        if late := +self.arrivals.late:
            yield f"rows were marked as late: {dict(late)}"
        for who in (IN_ORDER, TOGETHER):
            if self.arrivals.again[who] > (most := self.spark_kills * self.at_once):
                yield f"{who} sent {self.arrivals.again[who]:,} rows again; {most:,} are explained"
        if self.refused:
            yield f"the store answered 429, {self.refused:,} times"
        if not self.spent.holds:
            yield f"the limit was not kept: {self.spent}"
        if self.left:
            yield f"{self.left:,} reminders are left"
        if self.alerts is not None:
            if missing := FIRED - self.alerts:
                yield f"alerts that did not fire: {sorted(missing)}"
            if wrong := NEVER_FIRED & self.alerts:
                yield f"alerts that fired without a cause: {sorted(wrong)}"
        if self.unresolved:
            yield f"alerts that did not resolve: {sorted(self.unresolved)}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.lasted:.0f} s, {len(self.troubles)} troubles:"
        for what in sorted(set(self.troubles)):
            yield f"  {self.troubles.count(what):>3} x {what}"
        yield f"{'sent by':<20}{'way':<16}{'rows':>12}{'sent again':>12}"
        for who, path in PATHS.items():
            first, again = self.arrivals.firsts[who], self.arrivals.again[who]
            yield f"{who:<20}{path:<16}{first:>12,}{again:>12,}"
        for path, expected in self.expected.items():
            yield f"{len(self.arrivals.rows[path]):,} of {expected:,} arrived {path}"
        yield f"answered with 429: {self.refused}"
        yield f"the limit: {self.spent}"
        if self.alerts is None:
            yield "alerts: not watched, there is no prometheus here (apt-get install prometheus)"
        else:
            yield f"alerts that fired: {', '.join(sorted(self.alerts)) or 'none'}"
        problems = list(self.problems())
        yield "\n".join(f"PROBLEM: {problem}" for problem in problems) or "no problem"
