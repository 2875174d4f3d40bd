"""The kinds of things that have metrics, and how to add one.

A *part* reads one thing at each scrape. A kind is a class of things, and a function that makes
their parts; `instrumentable` adds one:

    @instrumentable(Oven)
    def parts_of_oven(oven, options):
        yield OvenPart(oven, options)        # a Part of its own
        yield from parts_of(oven.batcher, options)    # and those of what it consists of

A thing that only consists of others needs no part of its own, but a property `consists_of` with
these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol, runtime_checkable

from dispatcher.metrics.readings import Reading
from limiters._support.validation import ArgumentError


class Part(Protocol):
    """Reads one thing. Called by the threads of scrapes, one at a time."""

    @property
    def subject(self) -> object:
        """The thing that it reads; None once that is gone. A part must not keep it alive."""
        ...

    def read(self) -> Iterable[Reading]:
        """Return its values. Counters must still be returned when the thing is gone."""
        ...


@runtime_checkable
class Beginning(Protocol):
    """A part that has to watch its thing: `begin` is called once, before the first scrape, and not
    if the thing is read already."""

    def begin(self) -> None:
        """Start to watch the thing for values that it does not keep."""
        ...


@runtime_checkable
class OfLimiter(Protocol):
    """The part of a limiter: Batchers with that limiter have the same label."""

    @property
    def limit(self) -> str:
        """The label `limit` of the limiter."""
        ...


ExemplarOf = Callable[[list[Any]], Mapping[str, str]]
"""Returns the exemplar of a batch, given its operations."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `instrument`."""

    name: str | None = None
    exemplar: ExemplarOf | None = None
    cost_bounds: tuple[float, ...] | None = None
    limit_of: Callable[[object], str | None] = lambda limiter: None
    """Returns the label of a limiter that the registry shows already."""


Maker = Callable[[Any, Options], Iterable[Part]]


@singledispatch
def parts_of(subject: object, options: Options) -> Iterable[Part]:
    """Return the parts of a thing of any kind; with `consists_of`, those of the things in it."""
    consists_of = getattr(subject, "consists_of", None)
    if consists_of is not None:
        return [part for one in consists_of for part in parts_of(one, options)]
    raise ArgumentError(
        "subject", subject, "be a Batcher, a limiter, a Timeline, a gate, a builder or a Worker"
    )


def instrumentable(kind: type) -> Callable[[Maker], Maker]:
    """Decorate a function that makes the parts of things of class `kind`."""

    def register(make: Maker) -> Maker:
        parts_of.register(kind, make)
        return make

    return register
