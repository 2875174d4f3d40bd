"""The rows that a handler was given, and which of them it names. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from dispatcher.spark._rows.formats import Rows


def listed(rows: Rows) -> list[Any]:
    """What a handler may say of `rows`, whatever it does to the list of them."""
    return list(rows) if isinstance(rows, list) else list(range(rows.num_rows))


def places_of(handed: list[Any], named: Iterable[Any]) -> list[int]:
    """Which of the rows `handed` are `named`, in order. KeyError if one is none of them."""
    places = {_identity(one): place for place, one in enumerate(handed)}
    return sorted({places[_identity(one)] for one in named})


def _identity(named: object) -> object:
    # A number may be one of numpy's.
    return named.__index__() if isinstance(named, SupportsIndex) else ("object", id(named))
