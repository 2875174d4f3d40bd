"""What a handler is told beside its messages, if it asks for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The second argument of a handler that takes two."""

    topic: str
    consumer: str
    attempt: int
    """The largest among the messages; each tells its own as well."""
