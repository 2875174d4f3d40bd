"""Lock a file for one process."""

from __future__ import annotations

from types import ModuleType

from dispatcher.registration.errors import EntityStoreError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def lock(descriptor: int) -> None:
    """Lock the open file for this process, until it is closed. BlockingIOError if another process
    has locked it."""
    if fcntl is None:
        raise EntityStoreError(
            "this system cannot lock files (no fcntl), and two gates would overwrite each "
            "other's files: use a RedisEntityStore or a MemoryEntityStore, and no EarlyMessageLog"
        )
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
