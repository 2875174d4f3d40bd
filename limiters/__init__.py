"""Budgets: who may spend how much, now."""

from typing import TYPE_CHECKING

from limiters._support.validation import ArgumentError
from limiters.config import LimiterConfig
from limiters.errors import (
    DispatcherError,
    ExceedsCapacityError,
    ImproperOrderError,
    LeaseManagerError,
    LimiterError,
    LimiterStoppedError,
    SharedCapacityNotProvisionedError,
)
from limiters.events import Event, Listener
from limiters.leases import LeaseManager, MemoryLeaseManager
from limiters.limiter import Grant, RateLimiter
from limiters.provisioned import ProvisionedResource
from limiters.shared import SharedResource

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager

    __version__: str

__all__ = [
    "ArgumentError",
    "DispatcherError",
    "Event",
    "ExceedsCapacityError",
    "Grant",
    "ImproperOrderError",
    "LeaseManager",
    "LeaseManagerError",
    "LimiterConfig",
    "LimiterError",
    "LimiterStoppedError",
    "Listener",
    "MemoryLeaseManager",
    "ProvisionedResource",
    "RateLimiter",
    "RedisLeaseManager",
    "SharedCapacityNotProvisionedError",
    "SharedResource",
]


def __getattr__(name: str) -> object:
    # Redis is only for those who use it: `import limiters` neither needs it nor reads its scripts.
    if name == "RedisLeaseManager":
        from limiters.leases.redis import RedisLeaseManager

        return RedisLeaseManager
    if name == "__version__":
        from limiters._version import version

        return version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
