"""Judges a run from the log of what was spent when: did any window go over, was it fair?

It is independent of ledgers and leases. Your program notes (time, instance, cost) as each of its
callbacks begins, by one clock, and passes the notes. For limits of several dimensions the cost
is a mapping, and (time, instance, cost, end) also says when the callback returned. Where actual
costs are known only afterwards, an entry has both: `cost` is then the estimate that was charged,
and the actual cost is what is judged.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from limiters._plain_numbers import plain
from limiters._support.float_error import covers
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, amount, seconds
from limiters.limits import Bound, BoundKind, Limits


class Spent(NamedTuple):
    """One entry of the log: when a callback began, whose it was, what it cost."""

    at: float
    instance: str
    cost: float
    actual: float | None = None
    """The actual cost, if it was settled: then `cost` is its estimate."""

    @property
    def judged(self) -> float:
        """The cost that counts: the actual one, if it is known."""
        return self.cost if self.actual is None else self.actual


LogEntry = tuple[float, str, float] | tuple[float, str, float, float | None]
"""One entry of a log, as a Spent or as a plain tuple."""


class SpentCall(NamedTuple):
    """One entry of the log of limits of several dimensions."""

    at: float
    instance: str
    cost: float | Mapping[str, float]
    end: float | None = None
    """When the callback returned. None: it never did, and may have run as long as a call may."""
    actual: float | Mapping[str, float] | None = None
    """The actual cost, if it was settled; of dimensions that it does not name, the estimate."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of `verify`."""

    windows: int
    """How many windows were looked at: one that ends with each entry, and those from which on
    a lowered capacity counts alone; none in between is worse."""
    over: int
    worst: float
    """The fullest window, as a share of the limit that was in force."""
    worst_at: float
    total: float
    used: float
    """The share of the capacity that was used after the first entry, until the last one; where the
    log is shorter than a window, of one whole window."""
    estimated: float = 0.0
    """The sum of the estimates; `total` is that of the actual costs, where they are known."""
    is_short: bool = False
    """Whether the log is shorter than a window."""

    @property
    def cost_ratio(self) -> float:
        """The actual costs as a share of the estimates; 1.0 if nothing was spent."""
        return self.total / self.estimated if self.estimated else 1.0

    @property
    def holds(self) -> bool:
        """Whether no window was over (law C1)."""
        return not self.over

    def __str__(self) -> str:
        if not self.windows:
            return "nothing was spent"
        result = "no window over" if self.holds else f"{self.over} OVER"
        settled = "" if self.cost_ratio == 1 else f"; {self.cost_ratio:.4f} of the estimated costs"
        short = ", in less than a window" if self.is_short else ""
        return (
            f"{result} of {self.windows}; the fullest at {self.worst:.4f} of the limit, "
            f"ending at {self.worst_at:.3f}; {self.used:.4f} of the capacity used{short}{settled}"
        )


@dataclass(frozen=True, slots=True)
class LimitsVerdict:
    """The result of `verify_limits`, for each window and each number of calls in flight."""

    bounds: tuple[tuple[Bound, Verdict], ...]

    @property
    def holds(self) -> bool:
        """Whether no window was over, and never too many calls ran (laws V1 and N1)."""
        return all(verdict.holds for _, verdict in self.bounds)

    def of(self, dimension: str) -> tuple[Verdict, ...]:
        """The verdicts on one dimension: on its longest window first."""
        return tuple(verdict for bound, verdict in self.bounds if bound.dimension == dimension)

    def __str__(self) -> str:
        return "\n".join(f"{bound}: {verdict}" for bound, verdict in self.bounds)


Capacity = float | Sequence[tuple[float, float]]
"""A capacity, or those in force one after the other: (from when, capacity)."""


def verify(
    log: Iterable[LogEntry],
    capacity: Capacity,
    *,
    period: Seconds = 1.0,
    settling: Seconds = 0.0,
    late: Seconds = 0.0,
) -> Verdict:
    """Judges every window of `period` of a run against the `capacity` that all shared.

    Where the capacity changed, a window is held against the largest that was in force in it
    or less than `settling` before: an instance that is cut off may follow the old one until its
    lease ends.

    A callback notes its start a little after it, since its thread may be switched out in between.
    With `late`, each note may be up to so much later than the start it stands for, and a window
    counts as over only if it is over wherever in that time the starts were: if notes that are
    less than `period - late` apart cost more than the limit.

    Reserved capacity, if there is any, belongs into `capacity`: that of all instances. An entry of
    four also has the actual cost: windows are judged by that.

    >>> print(verify([(0.0, "a", 6), (0.5, "b", 4), (0.9, "a", 1), (2.0, "b", 9)], 10))
    1 OVER of 4; the fullest at 1.1000 of the limit, ending at 0.900; 0.7000 of the capacity used
    """
    period = seconds("period", period)
    settling = seconds("settling", settling, zero=True)
    late = seconds("late", late, zero=True)
    if late >= period:
        raise ArgumentError("late", late, f"be less than the period, {plain(period)} s")
    steps = _steps(capacity)
    entries = sorted(map(_checked, log), key=lambda entry: entry.at)
    if not entries:
        return Verdict(0, 0, 0.0, 0.0, 0.0, 0.0)
    times = [entry.at for entry in entries]
    sums = list(itertools.accumulate((entry.judged for entry in entries), initial=0.0))
    over, worst, worst_at = 0, 0.0, times[0]
    ends = _ends(times, steps, period + settling)
    span = period - late
    for at, since in ends:
        limit = _largest(steps, since, at)
        spent = sums[bisect.bisect_right(times, at)] - sums[bisect.bisect_right(times, at - span)]
        full = spent / limit if limit else math.inf
        over += not covers(limit, spent)
        if full > worst:
            worst, worst_at = full, at
    total = sums[-1]
    return Verdict(
        windows=len(ends),
        over=over,
        worst=worst,
        worst_at=worst_at,
        total=total,
        used=_used(entries, steps, period),
        estimated=math.fsum(entry.cost for entry in entries),
        is_short=times[-1] - times[0] < period,
    )


def verify_limits(
    log: Iterable[SpentCall | tuple[Any, ...]],
    limits: Limits | Sequence[tuple[float, Limits]],
    *,
    settling: Seconds = 0.0,
    late: Seconds = 0.0,
) -> LimitsVerdict:
    """Judges each dimension of `limits` from the log: every window of each rate, and at every start
    how many calls are in flight.

    `limits` may be those in force one after the other: (from when, limits), all of the same
    dimensions and windows. `settling` and `late` are those of `verify`. A window that counts from
    the end of a call is judged by ends. Where the number of calls was lowered, those that ran
    already are no fault; one that begins while they run is.

    >>> from limiters import InFlight, Limits, Rate
    >>> limits = Limits(tokens=Rate(100), calls=InFlight(1))
    >>> log = [(0.0, "a", {"tokens": 90, "calls": 1}, 0.6), (0.5, "b", {"tokens": 9, "calls": 1})]
    >>> verify_limits(log, limits).of("tokens")[0].worst
    0.99
    >>> print(verify_limits(log, limits).of("calls")[0])
    1 OVER of 2; the fullest at 2.0000 of the limit, ending at 0.500; 1.0000 of the capacity used
    """
    if isinstance(limits, Limits):
        limits = [(-math.inf, limits)]
    _check_is_many("limits", limits, "Limits", "verify judges a number")
    steps = list(limits)
    if not steps:
        raise ArgumentError("limits", UNSHOWN, "name at least one Limits, not an empty list")
    first = steps[0][1]
    calls = [_call(entry) for entry in log]
    costs = [costs_of(call, first) for call in calls]
    verdicts = []
    for number, bound in enumerate(first.bounds):
        capacity = [(at, one.bounds[number].capacity) for at, one in steps]
        pairs = zip(calls, costs, strict=True)
        charged = [(call, *cost[number]) for call, cost in pairs if any(cost[number])]
        if bound.kind is BoundKind.SLOTS:
            intervals = [(call.at, _end_of(call, bound), slots) for call, slots, _ in charged]
            verdicts.append((bound, _verify_slots(intervals, capacity, settling)))
        else:
            spent = [
                (_end_of(call, bound) if bound.at_end else call.at, call.instance, cost, actual)
                for call, cost, actual in charged
            ]
            verdict = verify(spent, capacity, period=bound.period, settling=settling, late=late)
            verdicts.append((bound, verdict))
    return LimitsVerdict(tuple(verdicts))


def costs_of(call: SpentCall, limits: Limits) -> list[tuple[float, float]]:
    """The estimate and the actual cost, for each bound."""
    estimated = limits.checked("cost", call.cost)
    actual = estimated
    if call.actual is not None:
        actual = limits.actual("actual", call.actual, estimated)
    return list(zip(limits.by_bound(estimated), limits.by_bound(actual), strict=True))


def _end_of(call: SpentCall, bound: Bound) -> float:
    return call.at + bound.max_operation_time if call.end is None else call.end


def _verify_slots(
    calls: list[tuple[float, float, float]],
    capacity: Sequence[tuple[float, float]],
    settling: Seconds,
) -> Verdict:
    """Calls as (start, end, slots): how many are in flight as each of them begins."""
    steps = _steps(capacity)
    if not calls:
        return Verdict(0, 0, 0.0, 0.0, 0.0, 0.0)
    changes = [(start, 1, slots) for start, _, slots in calls]
    changes += [(end, 0, -slots) for _, end, slots in calls]  # first, where both come together
    running, over, worst, worst_at = 0.0, 0, 0.0, calls[0][0]
    for at, starts, slots in sorted(changes):
        running += slots
        if not starts:
            continue
        limit = _largest(steps, at - seconds("settling", settling, zero=True), at)
        full = running / limit if limit else math.inf
        over += not covers(limit, running)
        if full > worst:
            worst, worst_at = full, at
    first, last = min(start for start, _, _ in calls), max(start for start, _, _ in calls)
    busy = math.fsum(slots * max(0.0, min(end, last) - start) for start, end, slots in calls)
    there = _could_have(steps, first, last)
    return Verdict(
        windows=len(calls),
        over=over,
        worst=worst,
        worst_at=worst_at,
        total=math.fsum(slots for _, _, slots in calls),
        used=busy / there if there else 0.0,
        estimated=math.fsum(slots for _, _, slots in calls),
    )


def fairness(
    log: Iterable[LogEntry],
    instances: Sequence[str],
    *,
    start: float,
    end: float,
    weights: Mapping[str, float] | None = None,
) -> float:
    """Jain's index of what `instances` spent in [start, end): 1.0 if all spent the same.

    With `weights`, of what they spent for their weight.

    >>> fairness([(0, "a", 3), (1, "b", 3)], ["a", "b"], start=0, end=5)
    1.0
    """
    spent = dict.fromkeys(instances, 0.0)
    for entry in (Spent(*one) for one in log):
        at, instance = entry.at, entry.instance
        if start <= at < end and instance in spent:
            spent[instance] += entry.judged / (weights[instance] if weights else 1.0)
    squares = math.fsum(cost * cost for cost in spent.values())
    if not squares:
        return 1.0
    return math.fsum(spent.values()) ** 2 / (len(spent) * squares)


def _checked(entry: LogEntry) -> Spent:
    try:
        spent = Spent(*entry)
        costs_are_valid = 0 <= spent.cost < math.inf and 0 <= spent.judged < math.inf
        is_valid = math.isfinite(spent.at) and costs_are_valid
    except TypeError:
        advice = "verify_limits judges costs by dimension"
        raise ArgumentError(
            "log", entry, "have entries of (time, instance, cost), in numbers", advice
        ) from None
    if not is_valid:
        raise ArgumentError("log", spent, "have finite times, and costs of zero or more")
    return spent


def _call(entry: SpentCall | tuple[Any, ...]) -> SpentCall:
    try:
        return SpentCall(*entry)
    except TypeError:
        requirement = "have entries of (time, instance, cost), with end and actual behind if known"
        raise ArgumentError("log", entry, requirement) from None


def _check_is_many(name: str, value: object, one: str, advice: str) -> None:
    """Refuse a `value` that is not those in force one after the other."""
    if not isinstance(value, Iterable):
        raise ArgumentError(name, value, f"be {one}, or a list of (from when, {name})", advice)


def _steps(capacity: Capacity) -> list[tuple[float, float]]:
    if isinstance(capacity, (int, float)):
        return [(-math.inf, amount("capacity", capacity))]
    _check_is_many("capacity", capacity, "a number", "verify_limits judges Limits")
    steps = sorted((at, amount("capacity", one, zero=True)) for at, one in capacity)
    if not steps:
        raise ArgumentError("capacity", UNSHOWN, "name at least one capacity, not an empty list")
    return [(-math.inf, steps[0][1]), *steps[1:]]


def _ends(
    times: list[float], steps: list[tuple[float, float]], reach: float
) -> list[tuple[float, float]]:
    """Where windows end that may be the worst, and since when capacities count for them."""
    ends = {at: at - reach for at in times}
    # A window that begins after one step down is held against less than those before.
    for at, _ in steps[1:]:
        if times[0] <= at + reach:
            ends[at + reach] = at
    return sorted(ends.items())


def _largest(steps: list[tuple[float, float]], start: float, end: float) -> float:
    first = bisect.bisect_right(steps, (start, math.inf)) - 1
    last = bisect.bisect_right(steps, (end, math.inf))
    return max(capacity for _, capacity in steps[max(first, 0) : last])


def _used(entries: list[Spent], steps: list[tuple[float, float]], period: float) -> float:
    first = entries[0].at
    last = max(entries[-1].at, first + period)  # less than a window has no share
    spent = math.fsum(entry.judged for entry in entries if entry.at > first)
    return spent * period / _could_have(steps, first, last) if spent else 0.0


def _could_have(steps: list[tuple[float, float]], start: float, end: float) -> float:
    ends = [at for at, _ in steps[1:]] + [math.inf]
    return math.fsum(
        capacity * max(0.0, min(end, until) - max(start, since))
        for (since, capacity), until in zip(steps, ends, strict=True)
    )
