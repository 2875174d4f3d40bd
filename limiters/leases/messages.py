"""What an instance and the coordinator of a limit say to each other. Plain values.

Durations are whole milliseconds, since the coordinator reckons by its server's clock in
milliseconds. No clock time of an instance is ever sent: only how long ago something was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from limiters._support.plain_numbers import plain
from limiters._support.validation import ArgumentError, seconds
from limiters.float_error import FLOAT_ERROR
from limiters.leases.ranges import EMPTY, Ranges

History = tuple[tuple[int, float], ...]
"""What was spent, as (age in milliseconds, cost)."""

MOST_PARTITIONS = 10_000

SHORTEST_PERIOD, LONGEST_PERIOD = 0.001, 86_400.0
"""Seconds: ages are told in whole milliseconds, and nobody waits for longer than a day."""

SHORTEST_LEASE, LONGEST_LEASE = 0.2, 86_400.0
"""Seconds: a shorter one would run out between two requests, however soon they follow."""


def partitions_of(capacity: float, factor: float) -> int:
    """How many partitions there are; the last one is worth only the remainder (law C10)."""
    return math.ceil(capacity / factor - FLOAT_ERROR)


def check_partitions(terms: Terms) -> None:
    """Refuses terms that make more partitions than there may be."""
    # Not by partitions_of(): no whole number is as large as such a quotient may be.
    if terms.capacity / terms.factor - FLOAT_ERROR > MOST_PARTITIONS:
        least = terms.capacity / MOST_PARTITIONS
        raise ArgumentError(
            "factor",
            terms.factor,
            f"be at least {plain(least)} for a capacity of {plain(terms.capacity)}",
            f"there can be no more than {MOST_PARTITIONS:,} partitions",
        )


def period_seconds(value: object) -> float:
    """`value` as the period of a limit."""
    period = seconds("period", value)
    if not SHORTEST_PERIOD <= period <= LONGEST_PERIOD:
        raise ArgumentError(
            "period", value, f"be from {plain(SHORTEST_PERIOD)} to {plain(LONGEST_PERIOD)} seconds"
        )
    return period


def lease_seconds(value: object) -> float:
    """`value` as the lease time of a limit."""
    lease = seconds("lease_time", value)
    if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
        raise ArgumentError(
            "lease_time",
            value,
            f"be from {plain(SHORTEST_LEASE)} to {plain(LONGEST_LEASE)} seconds",
        )
    return lease


@dataclass(frozen=True, slots=True)
class Terms:
    """What all instances of one limit agree on."""

    capacity: float
    factor: float
    period_ms: int
    lease_ms: int
    version: int = 0
    """Grows with every change, so that the newest of several is known."""


@dataclass(frozen=True, slots=True)
class Request:
    """Everything an instance has to say, in one call."""

    instance: str
    seq: int
    """Grows with each new request; one that is sent again keeps it."""
    terms: Terms
    """Those it follows, or, as long as it has heard of none, those it was made with."""
    held: Ranges = EMPTY
    """What it still holds, without what it releases."""
    until_ms: int = 0
    """Until when, by the server's clock, it was told that it holds them: the proof it has."""
    released: Ranges = EMPTY
    history: History = ()
    """What was spent of the released ones in the last period."""
    need: float = 0.0
    """The cost it could spend in a period, what it spent in the last one included."""
    gathering: float = 0.0
    """The cost that has to come together in one piece, if its next operation is dear."""
    waited_ms: int = 0
    """For how long it has gathered."""
    weight: float = 1.0
    interval_ms: int = 500
    """How soon it will ask again."""
    spent: float = 0.0
    """Of the shared capacity, in the last period."""
    reserved: float = 0.0
    label: str = ""
    """Who it is, for people."""
    leaving: bool = False
    born_ms: int = 0
    """The `born_ms` of the last reply it heard, or zero if it has heard none."""
    totals: tuple[float, ...] = ()
    """What was done since what it told of before, by totals.COUNTERS; () for nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Everything the coordinator has to say."""

    stale: bool = False
    """A later request of this instance was seen: this one changed nothing."""
    created: bool = False
    """There was no such limit before."""
    held: Ranges = EMPTY
    until_ms: int = 0
    lease_ms: int = 0
    history: History = ()
    """What comes along with partitions that are new."""
    share: float = 0.0
    """The fair share, in partitions."""
    keep: int = 0
    """How many full partitions it may keep."""
    keep_last: bool = False
    """Whether it may keep the last partition, if that one is worth less than the others."""
    at_once: bool = False
    """Whether what is beyond that goes back at once, and not with the next request."""
    come_back_ms: int = -1
    """When it is worth asking again, if it waits for something."""
    quarantine_ms: int = 0
    """For how long nothing new is granted, since it is not known who holds what."""
    evicted: bool = False
    capacity: float = 0.0
    """In force now; less than that of the terms while it is being raised."""
    terms: Terms = Terms(0, 1, 1000, 2000)
    members: int = 0
    needs: float = 0.0
    """The sum of what all need, in partitions."""
    free: int = 0
    """How many full partitions nobody holds."""
    born_ms: int = 0
    """When the coordinator met it: another time if it was given up meanwhile, or forgotten."""
