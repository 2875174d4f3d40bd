"""The result of one way to keep the limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher.cli.datastore import Datastore, most_in_a_second
from dispatcher.report import Entry
from limiters.verifier import fairness


@dataclass(frozen=True)
class DemoOutcome:
    """The result of one way: the datastore's record, which process was killed when, and which
    instance held which share of a shared limit (None if none was shared). Times are seconds of one
    clock."""

    title: str
    datastore: Datastore
    processes: Sequence[str]
    best: float
    """Minimum seconds of the work: see `Datastore.seconds_at_best`."""
    began: float
    killed_at: float
    killed: str
    quarters: bool = False
    """Whether no process may use more than its quarter of the limit."""
    holdings: Sequence[tuple[float, Mapping[str, float]]] | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the last write."""
        return self.datastore.entries[-1].at - self.began

    @property
    def used(self) -> float:
        """The share of the limit that was used: 1 if it was used in full."""
        return self.best / self.seconds

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
    def others_wrote_on(self) -> bool:
        """Whether each of the other processes has written after the kill."""
        return {one.instance for one in self._later} >= set(self.processes) - {self.killed}

    @property
    def share_was_used(self) -> bool:
        """Whether the other processes have written more in a second after the kill than their own
        equal shares."""
        others = 1 - 1 / len(self.processes)
        return most_in_a_second(self._later) > others * self.datastore.capacity

    @property
    def _later(self) -> list[Entry]:
        return [one for one in self.datastore.entries if one.at > self.killed_at]

    @property
    def freed_after(self) -> float | None:
        """Seconds until the share of the killed process was free for others; None if it had none,
        or if that was not seen."""
        seen = False
        for at, held in self.holdings or ():
            if self.killed in held:
                seen = True
            elif at <= self.killed_at:
                seen = False
            elif seen:
                return at - self.killed_at
        return None
