"""The options of lease managers: each is declared here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from limiters._plain_numbers import plain
from limiters._support.clock import Clock
from limiters._support.options import ConvertedOptions, about
from limiters._support.validation import (
    ArgumentError,
    Seconds,
    count,
    key_part,
    seconds,
    text,
)
from limiters.leases._format import MAX_PARTITIONS
from limiters.leases._messages import MAX_LEASE, lease_seconds, period_seconds

if TYPE_CHECKING:
    from redis import Redis, RedisCluster


def checked_lease(_: str, value: object) -> float:
    return lease_seconds(value)


def checked_period(_: str, value: object) -> float:
    """`value` as the period of a limit."""
    return period_seconds(value)


def checked_parts(name: str, value: int) -> int:
    """`value` as the number of partitions in which a limit is shown."""
    if count(name, value) > MAX_PARTITIONS:
        raise ArgumentError(name, value, f"be at most {MAX_PARTITIONS:,}")
    return value


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
            checked_lease,
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
