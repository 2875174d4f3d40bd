"""How the arguments of a SharedResource are checked, one by one and beside each other."""

from __future__ import annotations

from limiters._plain_numbers import plain
from limiters._support.float_error import covers
from limiters._support.validation import ArgumentError, Seconds
from limiters.leases._messages import Terms, check_partitions, milliseconds, period_seconds
from limiters.leases.protocol import LeaseManager

FEWEST_INTERVALS = 4
"""How many sync intervals a lease lasts at least (law C5 and the rest of them rely on it)."""


def terms_of(
    manager: LeaseManager | None,
    *,
    shared: float,
    factor: float,
    reserved: float,
    period: Seconds,
    interval: float,
) -> Terms:
    """The terms under which an instance would make the limit, were it the first to come."""
    period = period_seconds(period)
    check_manager(manager, shared=shared, reserved=reserved, interval=interval)
    lease = manager.lease_time if manager else interval * FEWEST_INTERVALS
    terms = Terms(shared, factor, milliseconds(period), milliseconds(lease))
    check_partitions(terms)
    return terms


def check_manager(
    manager: LeaseManager | None, *, shared: float, reserved: float, interval: float
) -> None:
    """Refuses what cannot be shared, and what leaves nothing to spend."""
    if manager is None:
        if shared:
            raise ArgumentError(
                "lease_manager",
                None,
                f"be given to share a shared_capacity of {plain(shared)}",
                "RedisLeaseManager(url, name=...) for many processes, MemoryLeaseManager() for one",
            )
        if not reserved:
            raise ArgumentError(
                "reserved_capacity",
                reserved,
                "be more than zero where shared_capacity is 0",
                "there is nothing to spend",
            )
        return
    if isinstance(manager, type) or not isinstance(manager, LeaseManager):
        raise ArgumentError("lease_manager", manager, "be a LeaseManager")
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
