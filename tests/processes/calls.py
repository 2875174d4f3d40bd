"""The calls that an instance makes of an API, drawn from its name: others can draw the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Any

from limiters.limits import InFlight, Limits, Rate

LimitsByDimension = dict[str, dict[str, Any]]
"""Limits of an API: `{"requests": {"rate": 60, "per": 6, "also": [[10, 1]]}, "calls":
{"in_flight": 20, "max_operation_time": 10}}`."""


def as_limits(allowed: LimitsByDimension) -> Limits:
    """`Limits` for a limiter that allow what the API allows."""
    return Limits(**{name: _as_limit(one) for name, one in allowed.items()})


def _as_limit(one: dict[str, Any]) -> Rate | InFlight:
    if "in_flight" in one:
        return InFlight(one["in_flight"], max_operation_time=one["max_operation_time"])
    return Rate(one["rate"], one["per"], also=[Rate(*inner) for inner in one.get("also", ())])


@dataclass(frozen=True)
class Prompt:
    """One call: its tokens, and how long it takes."""

    tokens: int
    seconds: float


def drawn(name: str, tokens: Sequence[int], shortest: float, longest: float) -> Iterator[Prompt]:
    """All calls of one instance: tokens from those named, as often as they are named; as many
    short ones as long ones, by the order of magnitude."""
    chance = Random(name)
    magnitudes = math.log(shortest), math.log(longest)
    while True:
        yield Prompt(chance.choice(tokens), math.exp(chance.uniform(*magnitudes)))


def in_turns(instances: Sequence[Iterator[Prompt]]) -> Iterator[Prompt]:
    """One of each instance, again and again: as they come to a single queue."""
    for some in zip_longest(*instances):
        yield from some
