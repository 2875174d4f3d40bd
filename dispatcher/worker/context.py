"""The context that a handler receives with its messages, if it has a second parameter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Second argument of a handler with two parameters."""

    topic: str
    consumer: str
    attempt: int
    """The largest attempt among the messages; each message also has its own."""
