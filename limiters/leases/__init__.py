"""Who keeps the leases of a limit that is shared: in memory, or in Redis."""

from limiters.leases.manager import LeaseManager, LimitView, MemberView
from limiters.leases.memory import MemoryLeaseManager

__all__ = ["LeaseManager", "LimitView", "MemberView", "MemoryLeaseManager"]
