"""What became of a task's rows, and of a micro-batch's."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

NAMES = (
    "rows",
    "batches",
    "calls",
    "sent_rows",
    "replayed_rows",
    "late_rows",
    "rejected_rows",
    "held_rows",
    "retries",
    "throttled",
    "cost",
    "waited",
    "longest_wait",
    "handling",
)
"""What is counted: longest_wait is the largest of all, everything else adds up."""

SCHEMA = ", ".join(f"{name} double" for name in NAMES)


class Sums:
    """Numbers that many threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.numbers = dict.fromkeys(NAMES, 0.0)

    @property
    def done(self) -> float:
        """How many rows are dealt with."""
        numbers = self.numbers
        dealt_with = ("sent_rows", "replayed_rows", "rejected_rows", "held_rows")
        return sum(numbers[name] for name in dealt_with)

    def add(self, **numbers: float) -> None:
        with self._lock:
            _add(self.numbers, numbers)


def together(parts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The sums of several tasks."""
    numbers = dict.fromkeys(NAMES, 0.0)
    for part in parts:
        _add(numbers, part)
    return numbers


def _add(numbers: dict[str, float], more: Mapping[str, Any]) -> None:
    for name, number in more.items():
        if name == "longest_wait":
            numbers[name] = max(numbers[name], number)
        else:
            numbers[name] += number
