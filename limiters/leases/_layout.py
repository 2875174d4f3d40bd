"""The layout of a limit: what each of its bounds is called, and how it counts. Pure.

Instances share a limit only if their layouts are the same text. Coordinators compare that text and
never read it; people do, and whoever changes a capacity by the name of its dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from limiters._bound_names import bound_names


@dataclass(frozen=True, slots=True)
class BoundLayout:
    """One bound in a layout."""

    dimension: str = ""
    slots: bool = False
    counts: str = "start"
    """From where a cost counts: from the `start` or the `end` of its call."""
    strict: bool = True
    """Of slots, whether an abandoned call keeps its slot until it returns."""


def layout_of(parts: Sequence[BoundLayout]) -> str:
    """The layout of bounds, in order; "" for a limit of one rate that has no name.

    >>> layout_of([BoundLayout("tokens", counts="end"), BoundLayout("calls", slots=True)])
    'tokens:end,calls:slots'
    >>> layout_of([BoundLayout()])
    ''
    """
    if list(parts) == [BoundLayout()]:
        return ""
    return ",".join(f"{one.dimension}:{_kind(one)}" for one in parts)


def _kind(part: BoundLayout) -> str:
    if part.slots:
        return "slots" if part.strict else "slots-freed-early"
    return part.counts


def parts_of(layout: str) -> tuple[BoundLayout, ...]:
    """The bounds of a layout. ValueError if it is none.

    >>> parts_of("calls:slots-freed-early")
    (BoundLayout(dimension='calls', slots=True, counts='start', strict=False),)
    """
    return tuple(map(_part, layout.split(","))) if layout else (BoundLayout(),)


def _part(text: str) -> BoundLayout:
    dimension, _, kind = text.rpartition(":")
    if kind in ("start", "end"):
        return BoundLayout(dimension, counts=kind)
    if kind in ("slots", "slots-freed-early"):
        return BoundLayout(dimension, slots=True, strict=kind == "slots")
    raise ValueError(f"{text!r} is no bound of a layout")


def names_of(layout: str, periods: Sequence[int]) -> tuple[str, ...]:
    """What people call each bound: its dimension, and the window where a dimension has several.

    >>> names_of("requests:start,requests:start,tokens:start", [60_000, 1_000, 60_000])
    ('requests', 'requests/1s', 'tokens')
    """
    parts = zip(parts_of(layout), periods, strict=True)
    return bound_names((part.dimension, period / 1000) for part, period in parts)
