"""What one way to keep the limit led to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher.cli.datastore import Datastore
from limiters.verifier import fairness


@dataclass(frozen=True)
class DemoOutcome:
    """One way: what its datastore saw, who was killed when, and who held which share of a shared
    limit (None if none was shared). Times are seconds of one clock."""

    title: str
    datastore: Datastore
    processes: Sequence[str]
    best: float
    """Seconds that the work takes at best: its cost / capacity."""
    began: float
    killed_at: float
    killed: str
    share_of_killed: str
    """What became of it, where no limit was shared."""
    holdings: Sequence[tuple[float, Mapping[str, float]]] | None = None

    @property
    def seconds(self) -> float:
        """From the begin to the last write."""
        return self.datastore.entries[-1].at - self.began

    @property
    def wasted(self) -> float:
        """The share of calls that were refused."""
        refused = len(self.datastore.refusals)
        return refused / (refused + len(self.datastore.entries))

    @property
    def fairness(self) -> float:
        """Jain's index of what the processes had written when one was killed: all had work until
        then. 1 is equal; with four processes 0.25 is all for one."""
        log = [(one.at, one.instance, one.cost) for one in self.datastore.entries]
        return fairness(log, self.processes, start=self.began, end=self.killed_at)

    @property
    def freed_after(self) -> float | None:
        """Seconds until the share of the killed process was free for others; None if it was not
        seen."""
        looks = [(at, held) for at, held in self.holdings or () if at > self.killed_at]
        free = (at for at, held in looks if self.killed not in held)
        return next((at - self.killed_at for at in free), None)
