"""Budgets: who may spend how much, now."""

from limiters.errors import (
    DispatcherError,
    ImproperOrderError,
    LeaseManagerError,
    LimiterError,
    LimiterStoppedError,
    SharedCapacityNotProvisionedError,
    TooExpensiveError,
)
from limiters.events import Event, Listener
from limiters.leases import LeaseManager, MemoryLeaseManager
from limiters.limiter import Grant, RateLimiter
from limiters.provisioned import ProvisionedResource
from limiters.shared import SharedResource

__all__ = [
    "DispatcherError",
    "Event",
    "Grant",
    "ImproperOrderError",
    "LeaseManager",
    "LeaseManagerError",
    "LimiterError",
    "LimiterStoppedError",
    "Listener",
    "MemoryLeaseManager",
    "ProvisionedResource",
    "RateLimiter",
    "SharedCapacityNotProvisionedError",
    "SharedResource",
    "TooExpensiveError",
]
