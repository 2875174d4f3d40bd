"""State: where a Batcher is in its life."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """A Batcher's life, in this order but for pauses."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
