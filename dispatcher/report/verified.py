"""Reports of a run as the verifier judges it, from a log of what was spent when."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatcher.report.run import CallsRun, Entry, Run
from dispatcher.report.writing import ReportFile
from limiters._bound_names import bound_names
from limiters._support.validation import ArgumentError
from limiters.limits import Bound, BoundKind, Limits
from limiters.verifier import (
    Capacity,
    LimitsVerdict,
    LogEntry,
    Spent,
    SpentCall,
    Verdict,
    costs_of,
    verify_limits,
)


def report(
    path: str | os.PathLike[str],
    log: Iterable[LogEntry],
    capacity: Capacity,
    *,
    title: str = "A run",
    period: float = 1.0,
    settling: float = 0.0,
    holdings: Sequence[tuple[float, Mapping[str, float]]] = (),
    partitions: int | None = None,
) -> Verdict:
    """Judge a run as limiters.verifier.verify does, and write a report of it.

    `path` is a page, or a picture if it ends with .svg. `holdings`: the share of the limit, from 0
    to 1, that an instance held from a time on, if that is known, and `partitions`: their number, if
    shares are to be shown in these. ReportError if `path` cannot be written.

    >>> import tempfile
    >>> from dispatcher.report import report
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     report(f"{directory}/run.html", [(0.0, "a", 6), (0.5, "b", 4)], 10).holds
    True
    """
    file = ReportFile(path)
    run = Run(
        title,
        capacity,
        [_entry(Spent(*one)) for one in log],
        period=period,
        settling=settling,
        holdings=holdings,
        partitions=partitions,
    )
    file.write([run])
    return run.verdict


def report_limits(
    path: str | os.PathLike[str],
    log: Iterable[SpentCall | tuple[Any, ...]],
    limits: Limits | Sequence[tuple[float, Limits]],
    *,
    title: str = "A run",
    settling: float = 0.0,
    holdings: Mapping[str, Sequence[tuple[float, Mapping[str, float]]]] | None = None,
) -> LimitsVerdict:
    """Judge a run as limiters.verifier.verify_limits does, and write a report of it: a column and
    charts for each window of each rate, and for each number of calls in flight.

    `path` is a page, or a picture if it ends with .svg. `holdings`: by the name of a window or of
    calls, such as `tokens` or `requests/1s`, the share of it that an instance held from a time on.
    ReportError if `path` cannot be written.

    >>> import tempfile
    >>> from dispatcher.report import report_limits
    >>> from limiters import InFlight, Limits, Rate
    >>> limits = Limits(requests=Rate(10), tokens=Rate(1_000), calls=InFlight(2))
    >>> call = {"requests": 1, "tokens": 400, "calls": 1}
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     log = [(0.0, "a", call, 0.4), (0.5, "b", call, 0.9)]
    ...     report_limits(f"{directory}/run.html", log, limits).holds
    True
    """
    file = ReportFile(path)
    calls = [SpentCall(*one) for one in log]
    verdict = verify_limits(calls, limits, settling=settling)
    steps = [(-math.inf, limits)] if isinstance(limits, Limits) else sorted(limits, key=_from)
    bounds = steps[0][1].bounds
    names = bound_names((bound.dimension, bound.period) for bound in bounds)
    held = holdings or {}
    if not held.keys() <= {*names}:
        raise ArgumentError("holdings", [*held], f"be of {', '.join(names)}")
    entries = _entries(calls, steps[0][1])
    runs = [
        _kind_of(bound)(
            f"{title}, {bound}",
            [(at, one.bounds[number].capacity) for at, one in steps],
            entries[number],
            period=bound.period,
            settling=settling,
            holdings=held.get(name, ()),
        )
        for number, (name, bound) in enumerate(zip(names, bounds, strict=True))
    ]
    file.write(runs, _fullest(names, verdict))
    return verdict


def _entry(spent: Spent) -> Entry:
    estimated = None if spent.actual is None else spent.cost
    return Entry(spent.at, spent.instance, spent.judged, estimated=estimated)


def _from(step: tuple[float, Limits]) -> float:
    return step[0]


def _kind_of(bound: Bound) -> type[Run]:
    return CallsRun if bound.kind is BoundKind.SLOTS else Run


def _entries(calls: Sequence[SpentCall], limits: Limits) -> list[list[Entry]]:
    """Return the log of each bound."""
    found: list[list[Entry]] = [[] for _ in limits.bounds]
    for call in calls:
        costs = costs_of(call, limits)
        for bound, (estimated, actual), entries in zip(limits.bounds, costs, found, strict=True):
            if estimated or actual:
                end = call.at + bound.max_operation_time if call.end is None else call.end
                at = end if bound.at_end else call.at
                entry = Entry(at, call.instance, actual, end=call.end)
                settled = call.actual is not None and bound.kind is BoundKind.RATE
                entries.append(entry._replace(estimated=estimated) if settled else entry)
    return found


def _fullest(names: Sequence[str], verdict: LimitsVerdict) -> list[str]:
    """Return a sentence about the dimension that was used most, if there are several."""
    used = [(found.used, name) for name, (_, found) in zip(names, verdict.bounds, strict=True)]
    share, name = max(used)
    return [f"Used most: {name}, {share:.4f} of its capacity."] if len(used) > 1 else []
