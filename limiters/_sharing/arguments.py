"""Checks of combinations of options of a SharedResource."""

from __future__ import annotations

from collections.abc import Mapping

from limiters._costs import AnyCost
from limiters._plain_numbers import plain
from limiters._sharing.options import SharedResourceOptions
from limiters._support.float_error import covers
from limiters._support.validation import ArgumentError, in_seconds
from limiters.leases._bounds import terms_of_limits, usual_factor
from limiters.leases._format import FEWEST_INTERVALS
from limiters.leases._messages import Terms, altered, check_partitions, milliseconds
from limiters.leases.protocol import LeaseManager
from limiters.limits import Limits


def limits_of(options: SharedResourceOptions) -> Limits:
    """Return the shared limits, or the reserved ones if nothing is shared."""
    shared = options.shared_capacity
    if isinstance(shared, Limits):
        if options.period != 1.0:
            raise ArgumentError(
                "period", options.period, "be left out with Limits", "each Rate says its own"
            )
        if options.ramp is not None and len(shared.bounds) > 1:
            raise ArgumentError(
                "ramp",
                options.ramp,
                "be left out where a limit has several dimensions or windows",
                "an operator gives one to each, as in dispatcher limit set NAME --shared-capacity "
                f"{shared.dimensions[0]}=AMOUNT --ramp {shared.dimensions[0]}=1000/60s",
            )
        return shared
    reserved = options.reserved_capacity
    if isinstance(reserved, Mapping):
        raise ArgumentError(
            "reserved_capacity",
            dict(reserved),
            "be a number where shared_capacity is no Limits",
            "for limits of one process alone, ProvisionedResource(Limits(...))",
        )
    return Limits.of(shared or reserved, milliseconds(in_seconds(options.period)) / 1000)


def reserved_of(options: SharedResourceOptions, limits: Limits) -> AnyCost:
    """Return the reserved capacity, as the limits add it up."""
    return limits.normal("reserved_capacity", options.reserved_capacity)


def terms_of(options: SharedResourceOptions) -> Terms:
    """Return the terms with which an instance makes the limit if it does not exist. ArgumentError
    for a capacity that cannot be shared, and for options that leave nothing to spend."""
    interval = in_seconds(options.max_interval)
    if options.lease_manager is None:
        _check_alone(options)
        lease = interval * FEWEST_INTERVALS
    else:
        _check_manager(options.lease_manager, options.shared_capacity, interval)
        lease = options.lease_manager.lease_time
    limits = limits_of(options)
    reserved_of(options, limits)
    terms = terms_of_limits(limits, _factor(options, limits), milliseconds(lease))
    if not options.shared_capacity:
        return altered(terms, capacity=0.0)
    check_partitions(terms)
    return terms


def _factor(options: SharedResourceOptions, limits: Limits) -> float:
    """Return the cost of a partition in the first bound."""
    named = isinstance(options.shared_capacity, Limits)
    if options.factor != 1 and (named or options.parts is not None):
        raise ArgumentError(
            "factor",
            options.factor,
            "be left out with Limits" if named else "be left out where parts is given",
            "say parts=100 for a hundred partitions",
        )
    if not named and options.parts is None:
        return options.factor
    return usual_factor(limits, options.parts)


def _check_alone(options: SharedResourceOptions) -> None:
    if options.shared_capacity:
        raise ArgumentError(
            "lease_manager",
            None,
            f"be given to share a shared_capacity of {_shown(options.shared_capacity)}",
            "RedisLeaseManager(url, name=...) for many processes, MemoryLeaseManager() for one",
        )
    if not options.reserved_capacity:
        raise ArgumentError(
            "reserved_capacity",
            options.reserved_capacity,
            "be more than zero where shared_capacity is 0",
            "there is nothing to spend",
        )


def _check_manager(manager: LeaseManager, shared: float | Limits, interval: float) -> None:
    if not shared:
        # The first instance makes the limit, and all others would share a capacity of zero.
        raise ArgumentError(
            "shared_capacity",
            shared,
            "be more than zero where there is a lease_manager",
            "give the capacity that all instances share, or leave lease_manager out",
        )
    if not covers(manager.lease_time, FEWEST_INTERVALS * interval):
        raise ArgumentError(
            "max_interval",
            interval,
            f"be at most {plain(manager.lease_time / FEWEST_INTERVALS)} seconds",
            f"a lease lasts {plain(manager.lease_time)} s here, and has to last at least "
            f"{FEWEST_INTERVALS} intervals",
        )


def _shown(capacity: float | Limits) -> str:
    return repr(capacity) if isinstance(capacity, Limits) else plain(capacity)
