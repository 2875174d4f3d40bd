"""Costs as people write them: a number, or by dimension, as in requests=1,tokens=812. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from limiters._limits_text import read_number_or_text
from limiters._plain_numbers import exact


def read_costs(text: str) -> float | str | dict[str, float | str]:
    """One value, or several by dimension; each is a number if it looks like one, else a text, such
    as the name of a field.

    >>> read_costs("2.5"), read_costs("requests=1,tokens=size")
    (2.5, {'requests': 1.0, 'tokens': 'size'})
    """
    if "=" not in text:
        return read_number_or_text(text)
    parts = (part.partition("=") for part in text.split(","))
    return {name.strip(): read_number_or_text(value.strip()) for name, _, value in parts}


def costs_text(cost: float | str | Mapping[str, float | str]) -> str:
    """Costs as they can be read again.

    >>> costs_text({"requests": 1.0, "tokens": "size"})
    'requests=1,tokens=size'
    """
    if isinstance(cost, Mapping):
        return ",".join(f"{name}={costs_text(one)}" for name, one in cost.items())
    return cost if isinstance(cost, str) else exact(cost)
