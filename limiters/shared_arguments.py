"""How the arguments of a SharedResource are checked, one by one and beside each other."""

from __future__ import annotations

from limiters.arguments import Seconds, amount, seconds
from limiters.leases.manager import LeaseManager
from limiters.leases.messages import Terms, check_partitions, period_seconds

FEWEST_INTERVALS = 4
"""How many sync intervals a lease lasts at least (law C5 and the rest of them rely on it)."""


def ramp_of(value: tuple[float, Seconds] | None) -> float | None:
    """How much a second a capacity rises, if it is not to rise at once."""
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"ramp must be (how much, over how many seconds), not {value!r}")
    return amount("ramp", value[0]) / seconds("ramp", value[1])


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
    terms = Terms(shared, factor, round(period * 1000), round(lease * 1000))
    check_partitions(terms)
    return terms


def check_manager(
    manager: LeaseManager | None, *, shared: float, reserved: float, interval: float
) -> None:
    """Refuses what cannot be shared, and what leaves nothing to spend."""
    if manager is None:
        if shared:
            raise ValueError(
                f"shared_capacity={shared:g} needs a lease_manager, through which it is shared; "
                "RedisLeaseManager(url, name=...) for many processes, MemoryLeaseManager() for one"
            )
        if not reserved:
            raise ValueError(
                "reserved_capacity and shared_capacity are both 0: there is nothing to spend"
            )
        return
    if isinstance(manager, type) or not isinstance(manager, LeaseManager):
        raise ValueError(f"lease_manager must be a LeaseManager, not {manager!r}")
    if not shared:
        # The first one that comes makes the limit, and those that follow would share nothing.
        raise ValueError(
            "shared_capacity=0 leaves nothing to share through a lease_manager; say how much all "
            "instances may spend together, or leave lease_manager out"
        )
    if manager.lease_time < FEWEST_INTERVALS * interval * (1 - 1e-9):
        raise ValueError(
            f"max_interval={interval:g} is too long for the lease manager's "
            f"lease_time={manager.lease_time:g}: a lease has to last at least "
            f"{FEWEST_INTERVALS} intervals; take {manager.lease_time / FEWEST_INTERVALS:g} or less"
        )
