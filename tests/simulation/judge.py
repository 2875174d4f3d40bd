"""Judges a storm: looks only at what was spent when, and at which terms were in force when.

It shares no code with the product, so that no mistake is made on both sides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

FORGIVEN = 1e-6
"""The share of a limit that sums of floats may be off by."""


@dataclass(frozen=True)
class Limited:
    """One bound of the limit that a storm has chosen: a window of a rate, or a number of calls."""

    dimension: str
    capacity: float
    period: float
    """Seconds of the window; of calls, how long one may last."""
    slots: bool = False
    at_end: bool = False
    """Whether a call counts from its end."""
    longest: float = 0.0
    """Seconds that a call may last, where that matters."""
    lax: bool = False
    """Whether a call that lasts longer counts no more."""

    def cost(self, cost: Mapping[str, float] | float) -> float:
        """Return the part of a cost that counts in this bound."""
        return cost.get(self.dimension, 0.0) if isinstance(cost, Mapping) else cost


class JudgedCall(Protocol):
    """A call as a server sees it: from when until when, and its cost."""

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def cost(self) -> Any: ...


@dataclass(frozen=True)
class Allowance:
    """An exception that the docs name: so much more of the limit, from when until when."""

    start: float
    end: float
    share: float
    only: int | None = None
    """The place of the one bound that it is about; None for all."""


@dataclass(frozen=True)
class Haste:
    """Another exception: so many seconds too early something is granted, from when until when. Then
    windows that are shorter by so much hold."""

    start: float
    end: float
    seconds: float


@dataclass(frozen=True)
class Judgement:
    """Findings of a judge: windows that were over, and instances that waited too long."""

    windows: int
    over: int
    worst: float
    """The fullest window, as a share of the limit."""
    worst_at: float
    stalled: tuple[str, ...] = ()
    """Instances that got nothing although they should have."""
    waits: int = 0
    """How many waits for capacity were judged."""
    excepted: int = 0
    """Windows over the limit, but not over what an exception allows."""

    @property
    def holds(self) -> bool:
        """Whether no window was over, and each instance got something in time."""
        return not (self.over or self.stalled)

    def __str__(self) -> str:
        told = f"{self.over} of {self.windows} windows over, worst {self.worst:.4f} "
        return told + f"at {self.worst_at:.3f}" + "".join(f"; {one}" for one in self.stalled)


def judge(
    spent: Iterable[tuple[float, float]],
    capacities: Sequence[tuple[float, float]],
    periods: Sequence[tuple[float, float]],
    lag: float,
    allowances: Sequence[Allowance] = (),
    hastes: Sequence[Haste] = (),
) -> Judgement:
    """Every window that ends with a spending (when, cost): against the largest capacity, and for
    the shortest period, in force from `lag` before the window on."""

    def full(at: float, index: int, length: float, capacity: float) -> float:
        return (sums[index + 1] - sums[bisect_right(times, at - length)]) / capacity

    log = sorted(spent)
    times = [at for at, _ in log]
    sums = [0.0, *accumulate(cost for _, cost in log)]
    longest = max(period for _, period in periods)
    over, excepted, worst, worst_at = 0, 0, 0.0, 0.0
    for index, at in enumerate(times):
        since = at - longest - lag
        period = min(_in_force(periods, since, at))
        capacity = max(_in_force(capacities, at - period - lag, at))
        early = sum(one.seconds for one in hastes if one.start <= at <= one.end)
        used = full(at, index, period, capacity)
        needs_exception = used > 1 + FORGIVEN
        if needs_exception and early:
            used = full(at, index, period - early, capacity)
        allowed = 1 + sum(one.share for one in allowances if one.start <= at <= one.end)
        if used > allowed + FORGIVEN:
            over += 1
        elif needs_exception:
            excepted += 1
        if used - allowed > worst - 1:
            worst, worst_at = used - allowed + 1, at
    return Judgement(len(log), over, worst, worst_at, excepted=excepted)


def judge_calls(
    calls: Iterable[tuple[float, float, float]],
    slots: Sequence[tuple[float, float]],
    lag: float,
    allowances: Sequence[Allowance] = (),
    hastes: Sequence[Haste] = (),
) -> Judgement:
    """The calls (from when, until when, slots) that run at the start of each: against the largest
    number of slots in force since `lag` before the first of them began."""
    known = sorted((start, end, taken) for start, end, taken in calls if taken)
    running: list[tuple[float, float, float]] = []
    windows, over, excepted, worst, worst_at = 0, 0, 0, 0.0, 0.0
    for start, end, taken in known:
        running = [one for one in running if one[1] > start]
        running.append((start, end, taken))
        windows += 1
        most = max(_in_force(slots, min(one[0] for one in running) - lag, start))
        early = sum(one.seconds for one in hastes if one.start <= start <= one.end)
        used = sum(one[2] for one in running) / most
        needs_exception = used > 1 + FORGIVEN
        if needs_exception and early:
            used = sum(one[2] for one in running if one[1] - early > start) / most
        allowed = 1 + sum(one.share for one in allowances if one.start <= start <= one.end)
        if used > allowed + FORGIVEN:
            over += 1
        elif needs_exception:
            excepted += 1
        if used - allowed > worst - 1:
            worst, worst_at = used - allowed + 1, start
    return Judgement(windows, over, worst, worst_at, excepted=excepted)


def judge_bounds(
    limited: Sequence[Limited],
    calls: Sequence[JudgedCall],
    capacities: Sequence[Sequence[tuple[float, float]]],
    periods: Sequence[Sequence[tuple[float, float]]],
    lag: float,
    allowances: Sequence[Allowance] = (),
    hastes: Sequence[Haste] = (),
) -> Judgement:
    """Every window of every bound, and the calls in flight: each bound by itself. Capacities and
    periods are those in force of each bound."""
    found = []
    for at, one in enumerate(limited):
        allowed = [each for each in allowances if each.only in (None, at)]
        costs = [(call.start, call.end, one.cost(call.cost)) for call in calls]
        if one.slots:
            if one.lax:
                costs = [(start, min(end, start + one.period), n) for start, end, n in costs]
            found.append(judge_calls(costs, capacities[at], lag, allowed, hastes))
        else:
            spent = [(end if one.at_end else start, cost) for start, end, cost in costs if cost]
            later = lag + one.longest if one.at_end else lag
            found.append(judge(spent, capacities[at], periods[at], later, allowed, hastes))
    return worst_of(found)


def worst_of(judgements: Sequence[Judgement]) -> Judgement:
    """Return the findings of all bounds as one."""
    worst = max(judgements, key=lambda one: one.worst)
    return Judgement(
        sum(one.windows for one in judgements),
        sum(one.over for one in judgements),
        worst.worst,
        worst.worst_at,
        excepted=sum(one.excepted for one in judgements),
    )


def _in_force(steps: Sequence[tuple[float, float]], since: float, until: float) -> list[float]:
    first = max(0, bisect_right(steps, (since, float("inf"))) - 1)
    return [value for _, value in steps[first : bisect_left(steps, (until, float("inf")))]]
