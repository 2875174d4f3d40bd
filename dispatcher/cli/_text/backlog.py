"""The backlog of a topic in a row of a table. Pure."""

from __future__ import annotations

from dataclasses import asdict

from dispatcher.cli._text.moments import duration
from dispatcher.timeline import Stats

TITLES = ("due", "late", "waiting", "processing", "dead", "consumers")

NOBODY = "no consumer is running"


def cells_of(stats: Stats) -> tuple[str, ...]:
    """Return the cells below TITLES."""
    due = stats.new + stats.lost
    return (
        f"{due:,}",
        duration(stats.backlog_age) if due else "-",
        f"{stats.waiting:,}",
        f"{stats.processing:,}",
        f"{stats.dead:,}",
        f"{stats.consumers:,}",
    )


def as_json(topic: str, stats: Stats) -> dict[str, object]:
    """Return all numbers for scripts: durations in seconds, times in epoch milliseconds."""
    return {"topic": topic, **asdict(stats), "remaining": stats.remaining}


def is_left_alone(stats: Stats) -> bool:
    """Whether messages are due, and there is no consumer."""
    return bool(stats.new or stats.lost) and not stats.consumers
