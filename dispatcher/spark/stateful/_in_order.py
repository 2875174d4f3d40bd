"""Sorts the rows of a micro-batch so that their order does not depend on Spark's shuffle (law
K5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from dispatcher.spark.stateful._columns import names

Numbers = np.ndarray[Any, Any]
_WHEN_AND_WHAT = itemgetter(0, 1, 2)


def in_order(
    arrivals: Numbers | None, times: Numbers, keys: pa.Array, rows: pa.RecordBatch
) -> Numbers | None:
    """Return the places of the rows in order: by arrival, if there is one, time and key, and then
    by the other columns. None: the rows are in order."""
    if _increase(times) and (arrivals is None or _never_decrease(arrivals)):
        return None
    order = np.argsort(times, kind="stable") if arrivals is None else np.lexsort((times, arrivals))
    ordered = times[order]
    alike = ordered[1:] == ordered[:-1]
    if arrivals is not None and alike.any():
        came = arrivals[order]
        alike &= came[1:] == came[:-1]
    if not alike.any():
        return order
    came = times if arrivals is None else arrivals
    return _with_keys(came.tolist(), times.tolist(), names(keys), rows)


def _increase(numbers: Numbers) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _never_decrease(numbers: Numbers) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _with_keys(
    arrivals: Sequence[Any], times: Sequence[Any], keys: Sequence[Any], rows: pa.RecordBatch
) -> Numbers:
    ordered: list[int] = []
    placed = sorted(zip(arrivals, times, keys, range(len(times)), strict=True))
    for _, group in groupby(placed, key=_WHEN_AND_WHAT):
        alike = [place for *_, place in group]
        if len(alike) > 1:
            alike.sort(key=lambda place: repr(rows.slice(place, 1).to_pylist()))
        ordered += alike
    return np.array(ordered)
