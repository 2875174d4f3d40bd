"""How the options of a SharedResource are checked beside each other."""

from __future__ import annotations

from limiters._plain_numbers import plain
from limiters._sharing.options import SharedResourceOptions
from limiters._support.float_error import covers
from limiters._support.validation import ArgumentError, in_seconds
from limiters.leases._format import FEWEST_INTERVALS
from limiters.leases._messages import Terms, check_partitions, milliseconds
from limiters.leases.protocol import LeaseManager


def terms_of(options: SharedResourceOptions) -> Terms:
    """The terms under which an instance would make the limit, were it the first to come.

    Refuses what cannot be shared, and what leaves nothing to spend."""
    interval = in_seconds(options.max_interval)
    if options.lease_manager is None:
        _check_alone(options)
        lease = interval * FEWEST_INTERVALS
    else:
        _check_manager(options.lease_manager, options.shared_capacity, interval)
        lease = options.lease_manager.lease_time
    period = in_seconds(options.period)
    terms = Terms.scalar(
        options.shared_capacity, options.factor, milliseconds(period), milliseconds(lease)
    )
    check_partitions(terms)
    return terms


def _check_alone(options: SharedResourceOptions) -> None:
    if options.shared_capacity:
        raise ArgumentError(
            "lease_manager",
            None,
            f"be given to share a shared_capacity of {plain(options.shared_capacity)}",
            "RedisLeaseManager(url, name=...) for many processes, MemoryLeaseManager() for one",
        )
    if not options.reserved_capacity:
        raise ArgumentError(
            "reserved_capacity",
            options.reserved_capacity,
            "be more than zero where shared_capacity is 0",
            "there is nothing to spend",
        )


def _check_manager(manager: LeaseManager, shared: float, interval: float) -> None:
    if not shared:
        # The first one that comes makes the limit, and those that follow would share nothing.
        raise ArgumentError(
            "shared_capacity",
            shared,
            "be more than zero where there is a lease_manager",
            "say how much all instances may spend together, or leave lease_manager out",
        )
    if not covers(manager.lease_time, FEWEST_INTERVALS * interval):
        raise ArgumentError(
            "max_interval",
            interval,
            f"be at most {plain(manager.lease_time / FEWEST_INTERVALS)} seconds",
            f"a lease lasts {plain(manager.lease_time)} s here, and has to last at least "
            f"{FEWEST_INTERVALS} intervals",
        )
