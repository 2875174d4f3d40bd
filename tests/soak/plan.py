"""The settings of all processes of a soak."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

from limiters import LimiterConfig


@dataclass(frozen=True, slots=True)
class Plan:
    """The amounts of everything, and the addresses."""

    PROGRAM: ClassVar[str] = "tests.soak.stream"

    redis: str = ""
    store: str = ""
    directory: str = ""
    """The folder of the source, the checkpoints and the notes."""
    limit: float = 1_500.0
    """How much all processes together may spend in a second."""
    devices: int = 30
    each: int = 10
    """How many measurements of a device are in a file; there is one file a second."""
    reminders: int = 100
    """How many reminders are due in a second."""
    workers: int = 2
    max_batch_size: int = 10
    concurrency: int = 8
    lease_time: float = 2.0
    master: str = "local-cluster[2,2,1024]"
    """The master of Spark."""

    @property
    def source(self) -> str:
        """Where files of measurements come in."""
        return f"{self.directory}/source"

    @property
    def notes(self) -> str:
        """Where handlers note what they spend."""
        return f"{self.directory}/notes"

    @property
    def environment(self) -> dict[str, str]:
        """The variables from which the handlers of all processes read the addresses."""
        return {"STORE": self.store, "NOTES": self.notes, "GATE": self.redis}

    @property
    def limiter(self) -> LimiterConfig:
        """Each one's share of the limit."""
        return LimiterConfig(
            url=self.redis,
            name="store",
            shared_capacity=self.limit,
            factor=self.limit / 50,
            max_interval=0.25,
            lease_time=self.lease_time,
        )

    def as_argument(self) -> str:
        """The form in which it is handed to a process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, text: str) -> Plan:
        """Return the plan that a process has received."""
        return cls(**json.loads(text))


BRIEF = Plan(limit=500.0, devices=10, each=5, reminders=30, workers=1, master="local[4,1000]")
"""It has no executors, since their Java machines would take most of the time of a brief soak."""
SMALL = Plan()
FULL = Plan(limit=4_000.0, devices=100, reminders=400, workers=3)
