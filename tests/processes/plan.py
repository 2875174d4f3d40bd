"""The plan that one process of a cluster receives."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self


@dataclass
class ProcessPlan:
    """Which limit a process shares, as how many instances."""

    program: ClassVar[str]
    """The module that is run."""

    url: str
    log: str = ""
    """A file of the whole cluster, to which each process may append lines."""
    names: tuple[str, ...] = ("i0",)
    """An instance for each name, all in this process."""
    limit: str = "orders"
    lease_time: float = 2.0
    max_interval: float = 0.5

    def as_argument(self) -> str:
        """The form in which it is handed to a process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls) -> Self:
        """The plan that this process was handed."""
        settings = json.loads(sys.argv[1])
        lists = {name: tuple(one) for name, one in settings.items() if isinstance(one, list)}
        return cls(**settings | lists)


@dataclass
class Plan(ProcessPlan):
    """The settings and the work of an instance.

    To the log each batch appends when it began (as it was charged), whose it is, what it costs.
    """

    program = "tests.processes.instance"

    shared_capacity: float = 20_000.0
    factor: float = 1_000.0
    reserved_capacity: float = 0.0
    period: float = 1.0
    cost: float = 10.0
    batch: int = 10
    operations: int | None = 0
    """How many operations each instance has; None for a backlog that never ends."""
    rate: float = 0.0
    """How many operations a second each instance gets, one by one; 0 for a backlog."""
    begin_at: float = 0.0
    """By MonotonicClock, which all processes of the machine share."""


@dataclass
class CallerPlan(ProcessPlan):
    """A limit of several dimensions, and the API that has it, which is called without end."""

    program = "tests.processes.caller"

    port: int = 0
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Limits of the API, as `tests/processes/calls.py` and the API read it."""
    tokens: tuple[int, ...] = (0,)
    """Tokens of calls, each as often as it is named."""
    estimated: int = 0
    """The tokens that each call is estimated at, until its answer says what it took; 0 if that is
    known before."""
    shortest: float = 0.2
    """Seconds of the shortest call, and of the longest."""
    longest: float = 1.0
