"""The batches that the steps should give, from plain builders fed row by row."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from dispatcher.builders import EventTimeBuilder

Rows = list[dict[str, Any]]
Batch = tuple[Any, Any, Any, list[dict[str, Any]]]
"""A batch: subject, start, end, messages."""


def batches(
    micro_batches: Iterable[tuple[Rows, Any]], window: Any, timeout: Any, arrival: str | None = None
) -> list[Batch]:
    """Return the batches of micro-batches, each with its processing time, in the columns s, k and
    t. `window` and `timeout` are in the unit of the step: in other units duplicates would be
    remembered for another time."""
    builders: dict[Any, EventTimeBuilder[dict[str, Any]]] = {}
    out: list[Batch] = []
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


def as_batches(rows: Iterable[Any]) -> list[Batch]:
    """Return rows of event_time_batches in the same form."""
    return [
        (row.subject, row.start, row.end, [message.asDict() for message in row.messages])
        for row in rows
    ]


def by_subject(batches: list[Batch]) -> dict[Any, list[Batch]]:
    """Return the batches of each subject, since there is no order between subjects."""
    found: dict[Any, list[Batch]] = {}
    for batch in batches:
        found.setdefault(batch[0], []).append(batch)
    return found
