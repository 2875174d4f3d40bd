"""Judges who waits: an instance with work that reaches a sure coordinator gets capacity in time."""

from __future__ import annotations

from limiters.testing import SimulatedCluster


class Liveness:
    """Looks at all instances of a cluster, again and again."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.stalled: list[str] = []
        self.waits = 0

    def start(self) -> None:
        """From now on."""
