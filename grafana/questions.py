"""What a panel is: a question, how it is answered, what to do then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Look = Literal["lines", "stacked", "number"]

GREEN, AMBER, RED, BLUE, GREY = "green", "orange", "red", "blue", "gray"

OUTCOMES = {
    "done": GREEN,
    "sent": GREEN,
    "failed": RED,
    "rejected": RED,
    "dead": RED,
    "abandoned": AMBER,
    "late": AMBER,
    "lost": AMBER,
    "overdue": AMBER,
    "returned": GREY,
    "free": GREY,
    "waiting": GREY,
    "replayed": BLUE,
    "held": BLUE,
    "new": BLUE,
    "processing": GREEN,
    "limit": RED,
    "reserved": AMBER,
}
"""What has such a name has such a colour, on every dashboard."""


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its series are called."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Question:
    """A panel. Its advice says what to do if the answer is bad."""

    title: str
    advice: str
    queries: tuple[Query, ...]
    unit: str = "short"
    look: Look = "lines"
    width: int = 12
    height: int = 8
    steps: tuple[tuple[float, str], ...] = ()
    """From which value on it has which colour; green below the first."""
    words: Mapping[float, tuple[str, str]] = field(default_factory=dict)
    """Values that are words, and their colours."""
    least: float | None = 0
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Panels under one heading."""

    title: str
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable: the values that a label of a metric has."""

    name: str
    label: str
    metric: str
    several: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard."""

    uid: str
    title: str
    description: str
    choices: tuple[Choice, ...]
    groups: tuple[Group, ...]
