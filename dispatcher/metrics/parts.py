"""What can be looked at: the kinds of things that have metrics, and how a further kind joins.

A *part* reads one thing when it is asked to, which is when somebody scrapes. A kind is a class
of things and what makes parts of them; `instrumentable` adds one:

    @instrumentable(Oven)
    def parts_of_oven(oven, options):
        yield OvenPart(oven, options)        # a Part of its own
        yield from parts_of(oven.batcher, options)    # and those of what it consists of

What only consists of others needs no part of its own: a property `consists_of` that gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol, runtime_checkable

from dispatcher.metrics.readings import Reading
from limiters._support.validation import ArgumentError


class Part(Protocol):
    """Reads one thing. Called by whoever scrapes, one at a time."""

    @property
    def subject(self) -> object:
        """What it reads; None once that is gone. A part must not keep it alive."""
        ...

    def read(self) -> Iterable[Reading]:
        """Its values now. What counts must go on to be told when the thing is gone."""
        ...


@runtime_checkable
class Beginning(Protocol):
    """What a part may have besides: called once it is read, and not if its thing is read
    already."""

    def begin(self) -> None:
        """Has the thing tell what it does not know afterwards."""
        ...


@runtime_checkable
class OfLimiter(Protocol):
    """What the part of a limiter has besides: Batchers on the limiter show the same label."""

    @property
    def limit(self) -> str:
        """The label `limit`."""
        ...


ExemplarOf = Callable[[list[Any]], Mapping[str, str]]
"""What to show of a batch, given its operations."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `instrument` was told."""

    name: str | None = None
    exemplar: ExemplarOf | None = None
    cost_bounds: tuple[float, ...] | None = None
    limit_of: Callable[[object], str | None] = lambda limiter: None
    """The label of a limiter that the registry shows already."""


Maker = Callable[[Any, Options], Iterable[Part]]


@singledispatch
def parts_of(subject: object, options: Options) -> Iterable[Part]:
    """The parts of a thing of any kind; of one that has `consists_of`, those of what is in it."""
    consists_of = getattr(subject, "consists_of", None)
    if consists_of is not None:
        return [part for one in consists_of for part in parts_of(one, options)]
    raise ArgumentError(
        "subject", subject, "be a Batcher, a limiter, a Timeline, a gate, a builder or a Worker"
    )


def instrumentable(kind: type) -> Callable[[Maker], Maker]:
    """Decorates what makes the parts of things of class `kind`."""

    def register(make: Maker) -> Maker:
        parts_of.register(kind, make)
        return make

    return register
