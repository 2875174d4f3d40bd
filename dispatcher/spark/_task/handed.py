"""Finds the rows that a handler names among those that it was given. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from dispatcher.spark._rows.formats import Rows


def listed(rows: Rows) -> list[Any]:
    """Return the values by which a handler names rows: the rows, or their numbers in a RecordBatch.
    The list stays the same if the handler changes its own."""
    return list(rows) if isinstance(rows, list) else list(range(rows.num_rows))


def places_of(handed: list[Any], named: Iterable[Any]) -> list[int]:
    """Return the places in `handed` of the rows `named`, in order. KeyError if one is not there."""
    places = {_identity(one): place for place, one in enumerate(handed)}
    return sorted({places[_identity(one)] for one in named})


def _identity(named: object) -> object:
    # SupportsIndex includes numpy's whole numbers.
    return named.__index__() if isinstance(named, SupportsIndex) else ("object", id(named))
