"""The options of a shared limit. Each is declared only here; signatures, LimiterConfig, the command
line, Spark's options and the reference are derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from limiters._costs import checked_cost
from limiters._costs_text import read_costs
from limiters._limits_text import read_number_or_text
from limiters._plain_numbers import exact
from limiters._support.clock import Clock
from limiters._support.options import ConvertedOptions, about
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, amount, seconds
from limiters.leases._messages import MIN_PERIOD, ramp_of, shared_amount, weight_units
from limiters.leases._options import StoredLeaseOptions, checked_parts, checked_period
from limiters.leases.protocol import LeaseManager
from limiters.limits import A_LIMIT, BoundKind, Limits, read_limits


def _shared(name: str, value: object) -> float | Limits:
    found = read_limits(name, value) if isinstance(value, str) else value
    if not isinstance(found, Limits):
        return shared_amount(name, found, zero=True, expected=A_LIMIT)
    for bound in found.bounds:
        if bound.kind is BoundKind.RATE and bound.period < MIN_PERIOD:
            raise ArgumentError(
                name,
                found,
                f"have windows of at least {exact(MIN_PERIOD)} seconds for {bound.dimension}",
                "instances share a limit by the millisecond",
            )
        shared_amount(f"{name}[{bound.dimension!r}]", bound.capacity)
    return found


def _reserved(name: str, value: float | Mapping[str, float] | str) -> object:
    found = read_costs(value) if isinstance(value, str) else value
    if isinstance(found, str):
        expected = "be a number, or amounts by dimension as in requests=10,tokens=500"
        raise ArgumentError(name, found, expected)
    return checked_cost(name, found)


def _weight(name: str, value: float) -> float:
    weight_units(value)
    return amount(name, value)


def _ramp(name: str, value: tuple[float, Seconds]) -> tuple[float, Seconds]:
    ramp_of(value)
    rise, duration = value
    return amount(name, rise), seconds(name, duration)


def _url(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(name, UNSHOWN, f"be a str, not a {type(value).__qualname__}")
    return value


def _lease_manager(name: str, value: object) -> LeaseManager:
    # A class has all the methods of its instances, so it would pass the second test.
    if isinstance(value, type) or not isinstance(value, LeaseManager):
        advice = "as in RedisLeaseManager(url, name=...)"
        raise ArgumentError(name, value, "be a LeaseManager", advice)
    return value


@dataclass(frozen=True, kw_only=True)
class ShareOptions(ConvertedOptions):
    """The options that are plain values: they can be pickled, and written in a file."""

    shared_capacity: float | Limits = field(
        default=0,
        metadata=about(
            "what all instances may spend together in one `period`, or Limits of several "
            "dimensions, also as a text such as requests=600/60s+10/1s,tokens=90000/60s,"
            "calls=20slots; the stored one applies, so an instance with another one follows it",
            _shared,
            read=read_number_or_text,
        ),
    )
    reserved_capacity: float | Mapping[str, float] = field(
        default=0,
        metadata=about(
            "what this instance may spend in addition to its share, at any time; by dimension, "
            "where there are several, as in requests=10,tokens=500",
            _reserved,
            read=read_costs,
        ),
    )
    factor: float = field(
        default=1,
        metadata=about("the capacity of one partition, in which limits are shown", amount),
    )
    parts: int | None = field(
        default=None,
        metadata=about(
            "the number of partitions in which the shared capacity is shown, in place of "
            "`factor`; 100 by default with Limits",
            checked_parts,
        ),
    )
    max_interval: Seconds = field(
        default=0.5,
        metadata=about(
            "the time between two requests while it has work; it sends none without work, "
            "and one immediately when it has work again",
            seconds,
            unit="s",
        ),
    )
    period: Seconds = field(
        default=1.0,
        metadata=about("the time in which a capacity may be spent", checked_period, unit="s"),
    )
    weight: float = field(
        default=1.0,
        metadata=about(
            "how much of the shared capacity it gets, compared with others that need more", _weight
        ),
    )
    ramp: tuple[float, Seconds] | None = field(
        default=None,
        metadata=about(
            "(x, y): a capacity raised by this instance rises by at most x over y seconds", _ramp
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SharedResourceOptions(ShareOptions):
    """All options, including those that only a program can give."""

    lease_manager: LeaseManager | None = field(
        default=None,
        metadata=about("keeps the leases, usually a RedisLeaseManager", _lease_manager),
    )
    clock: Clock | None = field(default=None, metadata=about("the clock, a ManualClock in tests"))


@dataclass(frozen=True, kw_only=True)
class _Shared(ConvertedOptions):
    url: str | None = field(
        default=None, metadata=about("the Redis in which the limit is shared", _url)
    )
    name: str = field(default="", metadata=about("the name of the limit: same name, same limit"))


@dataclass(frozen=True, kw_only=True)
class LimiterOptions(StoredLeaseOptions, ShareOptions, _Shared):  # of the last one first
    """All options that are plain values, including the place where the limit is kept."""
