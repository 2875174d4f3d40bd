"""What the steps should give, from plain builders fed row by row."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from dispatcher.builders import EventTimeBuilder

Rows = list[dict[str, Any]]
Told = tuple[Any, Any, Any, list[dict[str, Any]]]
"""Subject, start, end, messages."""


def batches(
    micro_batches: Iterable[tuple[Rows, Any]], window: Any, timeout: Any, arrival: str | None = None
) -> list[Told]:
    """Micro-batches, each with its processing time, in the columns s, k and t. `window` and
    `timeout` are those of the step: in other units they would make another duplicate memory."""
    builders: dict[Any, EventTimeBuilder[dict[str, Any]]] = {}
    out: list[Told] = []
    for rows, now in micro_batches:
        for subject in {row["s"] for row in rows} - set(builders):
            builders[subject] = EventTimeBuilder(window, timeout, key="k", event_time="t")
        for subject, builder in builders.items():
            mine = [row for row in rows if row["s"] == subject]
            placed = [
                (row[arrival] if arrival else now, row["t"], row["k"], repr([row]), row)
                for row in mine
            ]
            placed.sort(key=itemgetter(0, 1, 2, 3))
            closed = [batch for at, *_, row in placed for batch in builder.add(row, at)]
            if not arrival:
                closed += builder.advance(now)
            out += [(subject, batch.start, batch.end, batch.messages) for batch in closed]
    return out


def told(rows: Iterable[Any]) -> list[Told]:
    """Rows that event_time_batches gave, likewise."""
    return [
        (row.subject, row.start, row.end, [message.asDict() for message in row.messages])
        for row in rows
    ]


def by_subject(batches: list[Told]) -> dict[Any, list[Told]]:
    """Between subjects there is no order."""
    found: dict[Any, list[Told]] = {}
    for batch in batches:
        found.setdefault(batch[0], []).append(batch)
    return found
