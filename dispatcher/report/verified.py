"""Reports of a run as the verifier judges it, from a log of what was spent when."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from dispatcher.report.run import Entry, Run
from dispatcher.report.writing import ReportFile
from limiters.verifier import Capacity, Verdict


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
        [Entry(*one) for one in log],
        period=period,
        settling=settling,
        holdings=holdings,
        partitions=partitions,
    )
    file.write([run])
    return run.verdict
