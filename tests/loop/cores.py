"""How many processes can compute at a time."""

from __future__ import annotations

import os


def cores() -> int:
    """The cores that this process may use; all of the machine where the system does not report
    that."""
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
