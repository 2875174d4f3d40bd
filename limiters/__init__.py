"""Budgets: who may spend how much, now."""

from typing import TYPE_CHECKING

from limiters._support.lazy_names import lazily

if TYPE_CHECKING:
    from limiters._costs import Costs
    from limiters._resource.reservation import Reservation
    from limiters._support.validation import ArgumentError
    from limiters.config import LimiterConfig
    from limiters.errors import (
        DamagedLimitError,
        DispatcherError,
        ExceedsCapacityError,
        ImproperOrderError,
        LeaseManagerError,
        LimiterError,
        LimiterStoppedError,
        ReserveTimeoutError,
        SettlementError,
        SharedCapacityNotProvisionedError,
    )
    from limiters.events import Event, Listener
    from limiters.leases import LeaseManager, MemoryLeaseManager
    from limiters.leases.redis import RedisLeaseManager
    from limiters.limiter import Grant, RateLimiter
    from limiters.limits import InFlight, Limits, Rate, seconds
    from limiters.provisioned import ProvisionedResource
    from limiters.shared import SharedResource

    __version__: str

__all__ = [
    "ArgumentError",
    "Costs",
    "DamagedLimitError",
    "DispatcherError",
    "Event",
    "ExceedsCapacityError",
    "Grant",
    "ImproperOrderError",
    "InFlight",
    "LeaseManager",
    "LeaseManagerError",
    "LimiterConfig",
    "LimiterError",
    "LimiterStoppedError",
    "Limits",
    "Listener",
    "MemoryLeaseManager",
    "ProvisionedResource",
    "Rate",
    "RateLimiter",
    "RedisLeaseManager",
    "Reservation",
    "ReserveTimeoutError",
    "SettlementError",
    "SharedCapacityNotProvisionedError",
    "SharedResource",
    "seconds",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "limiters._costs": ["Costs"],
        "limiters._resource.reservation": ["Reservation"],
        "limiters._support.validation": ["ArgumentError"],
        "limiters.config": ["LimiterConfig"],
        "limiters.errors": [
            "DamagedLimitError",
            "DispatcherError",
            "ExceedsCapacityError",
            "ImproperOrderError",
            "LeaseManagerError",
            "LimiterError",
            "LimiterStoppedError",
            "ReserveTimeoutError",
            "SettlementError",
            "SharedCapacityNotProvisionedError",
        ],
        "limiters.events": ["Event", "Listener"],
        "limiters.leases": ["LeaseManager", "MemoryLeaseManager"],
        "limiters.limiter": ["Grant", "RateLimiter"],
        "limiters.limits": ["InFlight", "Limits", "Rate", "seconds"],
        "limiters.provisioned": ["ProvisionedResource"],
        "limiters.shared": ["SharedResource"],
        "limiters.leases.redis": ["RedisLeaseManager"],
        "limiters._version": ["__version__"],
    },
)
