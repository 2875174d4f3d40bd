"""Reports of what the verifier judges: a log of what was spent when."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatcher.report.run import Entry, Run
from dispatcher.report.writing import ReportFile
from limiters.limits import Bound, BoundKind, Limits
from limiters.verifier import Capacity, LimitsVerdict, SpentCall, Verdict, verify_limits


def report(
    path: str | os.PathLike[str],
    log: Iterable[tuple[float, str, float]],
    capacity: Capacity,
    *,
    title: str = "A run",
    period: float = 1.0,
    settling: float = 0.0,
    holdings: Sequence[tuple[float, Mapping[str, float]]] = (),
    partitions: int | None = None,
) -> Verdict:
    """Judges a run as limiters.verifier.verify does, and writes what it saw, to look at it.

    `path` is a page, or a picture if it ends with .svg. `holdings`: who held which share of the
    limit, from 0 to 1, at one time after the other, if that is known, and `partitions`: how many
    there are, if shares are to be shown so. ReportError if `path` cannot be written.

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
        [Entry(*one) for one in log],
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
    limits: Limits,
    *,
    title: str = "A run",
    settling: float = 0.0,
) -> LimitsVerdict:
    """Judges a run as limiters.verifier.verify_limits does, and writes what it saw: a column for
    each window of each rate, and a line for each number of calls in flight.

    `path` is a page, or a picture if it ends with .svg. ReportError if it cannot be written.

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
    rates = [bound for bound in limits.bounds if bound.kind is BoundKind.RATE]
    runs = [_run_of(title, bound, limits, calls, settling) for bound in rates]
    in_flight = [
        f"{bound}: {found}" for bound, found in verdict.bounds if bound.kind is BoundKind.SLOTS
    ]
    file.write(runs, in_flight)
    return verdict


def _run_of(
    title: str, bound: Bound, limits: Limits, calls: Sequence[SpentCall], settling: float
) -> Run:
    number = limits.bounds.index(bound)
    entries = []
    for call in calls:
        cost = limits.by_bound(limits.checked("cost", call.cost))[number]
        at = call.end if bound.at_end and call.end is not None else call.at
        if cost:
            entries.append(Entry(at, call.instance, cost))
    capacity, period = bound.capacity, bound.period
    return Run(f"{title}, {bound}", capacity, entries, period=period, settling=settling)
