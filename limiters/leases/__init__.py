"""Who keeps the leases of a limit that is shared: in memory, or in Redis."""

from limiters.leases._totals import COUNTERS
from limiters.leases.memory import MemoryLeaseManager
from limiters.leases.protocol import (
    BoundView,
    HoldingView,
    InstanceView,
    LeaseManager,
    LimitView,
)

__all__ = [
    "COUNTERS",
    "BoundView",
    "HoldingView",
    "InstanceView",
    "LeaseManager",
    "LimitView",
    "MemoryLeaseManager",
]
