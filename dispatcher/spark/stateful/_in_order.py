"""The one order of a micro-batch's rows, however Spark shuffled them (law K5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

Placed = tuple[Any, Any, Any, int]
"""An arrival, a time, a key, and which row it is."""
_WHEN_AND_WHAT = itemgetter(0, 1, 2)


def in_order(
    arrivals: Sequence[Any], times: Sequence[Any], keys: Sequence[Any], rows: pa.RecordBatch
) -> list[Placed]:
    """By arrival, time and key; what is alike in all three by its other columns."""
    placed = sorted(zip(arrivals, times, keys, range(len(times)), strict=True))
    if len(set(times)) == len(placed):
        return placed
    if len(set(zip(arrivals, times, keys, strict=True))) == len(placed):
        return placed
    ordered: list[Placed] = []
    for _, group in groupby(placed, key=_WHEN_AND_WHAT):
        alike = list(group)
        if len(alike) > 1:
            alike.sort(key=lambda one: repr(rows.slice(one[3], 1).to_pylist()))
        ordered += alike
    return ordered
