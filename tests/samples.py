"""Of many cases of the same law, a sample for `make test`. The rest is marked `long`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def sample(cases: Iterable[Any], every: int) -> list[Any]:
    """For `parametrize`: one in so many cases, the first one included.

    >>> [one.values[0] for one in sample("abcdefg", 3) if not one.marks]
    ['a', 'd', 'g']
    """
    return tuples(((one,) for one in cases), every)


def tuples(cases: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Return one in so many tuples, the first one included, for `parametrize` with several names.

    >>> [one.values for one in tuples([("a", 1), ("b", 2), ("c", 3)], 2) if not one.marks]
    [('a', 1), ('c', 3)]
    """
    return [_case(one, number % every == 0) for number, one in enumerate(cases)]


def grid(rows: Sequence[Any], columns: Sequence[Any], every: int) -> list[Any]:
    """For `parametrize` with two names: one in so many pairs, spread over all rows and columns.

    >>> [one.values for one in grid("abc", "xyz", 3) if not one.marks]
    [('a', 'x'), ('b', 'z'), ('c', 'y')]
    """
    return [
        _case((row, column), (across + down) % every == 0)
        for down, row in enumerate(rows)
        for across, column in enumerate(columns)
    ]


def _case(values: tuple[Any, ...], in_sample: bool) -> Any:
    return pytest.param(*values, marks=[] if in_sample else [pytest.mark.long])
