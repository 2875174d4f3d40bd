"""The options of lease managers, and of an operator's change: each is declared here and nowhere
else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from limiters._plain_numbers import plain
from limiters._support.clock import Clock
from limiters._support.options import ConvertedOptions, about
from limiters._support.validation import (
    ArgumentError,
    Seconds,
    amount,
    key_part,
    seconds,
    text,
)
from limiters.leases._layout import names_of
from limiters.leases._messages import (
    MAX_LEASE,
    Terms,
    lease_seconds,
    milliseconds,
    period_seconds,
    shared_amount,
)
from limiters.leases._terms_change import BoundChange, LimitChange

if TYPE_CHECKING:
    from redis import Redis, RedisCluster


def _lease(_: str, value: object) -> float:
    return lease_seconds(value)


def checked_period(_: str, value: object) -> float:
    """`value` as the period of a limit."""
    return period_seconds(value)


def _timeout(name: str, value: object) -> float:
    timeout = seconds(name, value)
    if timeout > MAX_LEASE:
        raise ArgumentError(name, value, f"be at most {plain(MAX_LEASE)} seconds")
    return timeout


@dataclass(frozen=True, kw_only=True)
class LeaseOptions(ConvertedOptions):
    """Those of every lease manager."""

    lease_time: Seconds = field(
        default=5.0,
        metadata=about(
            "for how long an instance holds what it was granted, unless it renews; the same for "
            "all of them, and at least four times their `max_interval`",
            _lease,
            unit="s",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class MemoryLeaseOptions(LeaseOptions):
    """Those of a MemoryLeaseManager."""

    name: str = field(
        default="memory", kw_only=False, metadata=about("what the limit is called", text)
    )
    clock: Clock | None = field(
        default=None, metadata=about("what tells the time, a ManualClock in tests")
    )


@dataclass(frozen=True, kw_only=True)
class StoredLeaseOptions(LeaseOptions):
    """Those that say how leases are kept in Redis, wherever that is."""

    prefix: str = field(
        default="dispatcher", metadata=about("what all of its keys begin with", key_part)
    )


@dataclass(frozen=True, kw_only=True)
class RedisLeaseOptions(StoredLeaseOptions):
    """Those of a RedisLeaseManager."""

    url_or_client: str | Redis | RedisCluster = field(
        kw_only=False, repr=False, metadata=about("where the leases are kept")
    )
    name: str = field(metadata=about("whose limit it is: same name, same limit", text))
    timeout: Seconds | None = field(
        default=None,
        metadata=about(
            "how long each step of a call may take; a quarter of `lease_time` and at most a "
            "second, unless said",
            _timeout,
            unit="s",
        ),
    )


def _by_dimension(name: str, value: object) -> float | Mapping[str, float]:
    """`value` as a capacity, or as those of dimensions by their names."""
    if not isinstance(value, Mapping):
        return shared_amount(name, value)
    if not value:
        raise ArgumentError(name, value, "name a dimension")
    return {
        text(f"a dimension of {name}", dimension): shared_amount(f"{name} of {dimension!r}", one)
        for dimension, one in value.items()
    }


@dataclass(frozen=True, kw_only=True)
class TermsChange(ConvertedOptions):
    """What an operator changes of a limit, in seconds and cost: what is None stays as it is."""

    capacity: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about(
            "what all instances may spend together in a period; of a limit of several dimensions, "
            "by their names",
            _by_dimension,
        ),
    )
    factor: float | None = field(
        default=None, metadata=about("what one partition is worth", amount)
    )
    period: float | None = field(
        default=None,
        metadata=about("the time in which the capacity may be spent", checked_period, unit="s"),
    )
    lease_time: float | None = field(
        default=None,
        metadata=about(
            "for how long an instance holds what it was granted, unless it renews", _lease, unit="s"
        ),
    )
    ramp: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about("a raised capacity rises by at most so much a second", _by_dimension),
    )

    @property
    def names_dimensions(self) -> bool:
        """Whether it has to be known which dimensions the limit has."""
        return isinstance(self.capacity, Mapping) or isinstance(self.ramp, Mapping)

    def of(self, known: Terms | None) -> LimitChange:
        """The same as a coordinator takes it, of a limit that has these terms; None where they do
        not matter, or there is none. ArgumentError for a dimension that it has not."""
        lease = 0 if self.lease_time is None else milliseconds(self.lease_time)
        period = 0 if self.period is None else milliseconds(self.period)
        if not self.names_dimensions and known is not None and known.layout and self.capacity:
            raise self._by_name(known)
        if not self.names_dimensions or known is None:
            scalar = isinstance(self.capacity, Mapping) or isinstance(self.ramp, Mapping)
            capacity = 0.0 if scalar else self.capacity or 0.0
            ramp = 0.0 if scalar else self.ramp or 0.0
            assert not isinstance(capacity, Mapping)
            assert not isinstance(ramp, Mapping)
            bounds = (BoundChange(capacity, period, ramp=ramp / 1000),)
            return LimitChange(bounds if capacity or period else (), self.factor or 0.0, lease)
        if period:
            raise ArgumentError(
                "period", self.period, "be left out", "the windows of several dimensions stay"
            )
        names = names_of(known.layout, [one.period for one in known.bounds])
        capacities, ramps = (self._of_bounds(name, names) for name in ("capacity", "ramp"))
        return LimitChange(
            tuple(
                BoundChange(capacity, slots=bound.slots, ramp=ramp / 1000)
                for bound, capacity, ramp in zip(known.bounds, capacities, ramps, strict=True)
            ),
            self.factor or 0.0,
            lease,
            known.layout,
        )

    def _by_name(self, known: Terms) -> ArgumentError:
        names = names_of(known.layout, [one.period for one in known.bounds])
        return ArgumentError(
            "capacity", self.capacity, f"be given by the names of dimensions: {', '.join(names)}"
        )

    def _of_bounds(self, option: str, names: Sequence[str]) -> list[float]:
        value = getattr(self, option)
        if value is None:
            return [0.0] * len(names)
        if not isinstance(value, Mapping):
            value = dict.fromkeys(names, value)  # a ramp that is the same for all
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ArgumentError(
                option, unknown[0], f"be of one of the limit's dimensions: {', '.join(names)}"
            )
        return [value.get(name, 0.0) for name in names]
