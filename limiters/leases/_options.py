"""The options of lease managers, and of an operator's change: each is declared here and nowhere
else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
from limiters.leases._messages import (
    MAX_LEASE,
    lease_seconds,
    milliseconds,
    period_seconds,
    shared_amount,
)

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


@dataclass(frozen=True, kw_only=True)
class TermsChange(ConvertedOptions):
    """What an operator changes of a limit, in seconds and cost: what is None stays as it is."""

    capacity: float | None = field(
        default=None,
        metadata=about("what all instances may spend together in a period", shared_amount),
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
    ramp: float | None = field(
        default=None,
        metadata=about("a raised capacity rises by at most so much a second", shared_amount),
    )

    def in_milliseconds(self) -> dict[str, Any]:
        """The same as a coordinator takes it, also the ramp."""
        return {
            "capacity": self.capacity,
            "factor": self.factor,
            "period": None if self.period is None else milliseconds(self.period),
            "lease": None if self.lease_time is None else milliseconds(self.lease_time),
            "ramp": None if self.ramp is None else self.ramp / 1000,
        }
