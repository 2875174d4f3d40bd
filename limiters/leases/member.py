"""What the coordinator remembers of an instance, and of a capacity that rises. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from limiters.leases.manager import MemberView, has_left
from limiters.leases.ranges import EMPTY, Ranges


@dataclass(slots=True)
class Ramp:
    """How the capacity rises from what it was to what it is to be."""

    start: float = 0.0
    start_ms: int = 0
    per_ms: float = 0.0

    def capacity(self, goal: float, now_ms: int) -> float:
        """What is in force at `now_ms`."""
        if self.per_ms <= 0:
            return goal
        # Another server's clock may be behind.
        return min(goal, self.start + self.per_ms * max(0, now_ms - self.start_ms))


@dataclass(slots=True)
class Member:
    """What is known of one instance."""

    seq: int
    born_ms: int
    """When it was met."""
    held: Ranges = EMPTY
    until_ms: int = 0
    gone_ms: int = 0
    """When it is given up, unless it is heard of."""
    seen_ms: int = 0
    interval_ms: int = 0
    need: float = 0.0
    gathering: float = 0.0
    wanted: int = 0
    weight: float = 1.0
    credit: float = 0.0
    """What it was owed when it was last heard of."""
    share: float = 0.0
    lacks: float = 0.0
    """How much less than its share it holds since then, in partitions."""
    given: list[tuple[int, float]] = field(default_factory=list)
    """What came along with its last grant, to be told again if the reply was lost."""
    evicted: bool = False
    spent: float = 0.0
    reserved: float = 0.0
    label: str = ""

    def has_left(self, now_ms: int, lease_ms: int) -> bool:
        """Whether it takes part no more."""
        return has_left(
            self.held,
            until_ms=self.until_ms,
            seen_ms=self.seen_ms,
            gone_ms=self.gone_ms,
            lease_ms=lease_ms,
            now_ms=now_ms,
        )

    def view(self, name: str, now_ms: int) -> MemberView:
        """The same, for people."""
        return MemberView(
            instance=name,
            label=self.label,
            held=self.held,
            lease_ms=self.until_ms - now_ms,
            seen_ms=now_ms - self.seen_ms,
            need=self.need,
            gathering=self.gathering,
            spent=self.spent,
            share=self.share,
            weight=self.weight,
            reserved=self.reserved,
            evicted=self.evicted,
        )
