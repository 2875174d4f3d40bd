"""Handlers that executors run. They note their calls in a file, since they run in other
processes."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dispatcher.outcomes import Reject, Retry, Throttled
from tests.processes.noted import append, lines


def note(path: str, facts: dict[str, Any]) -> None:
    """Append one line to the file."""
    append(path, json.dumps(facts, default=str))


def notes(path: Path) -> list[dict[str, Any]]:
    """Return all lines of the file."""
    return [json.loads(line) for line in lines(path)]


def take(rows: Any, context: Any, *, path: str) -> None:
    """Note the numbers of the rows: one line for each subject, or for each part of it."""
    numbers = rows.column("n").to_pylist() if hasattr(rows, "column") else [_n(row) for row in rows]
    whole = (context.subject, 0, len(numbers), context.first, context.last, context.key)
    parts = [
        (one.subject, one.start, one.end, one.first, one.last, one.key) for one in context.subjects
    ]
    for subject, start, end, first, last, key in parts or [whole]:
        note(
            path,
            {
                "type": type(rows[0]).__name__ if isinstance(rows, list) else type(rows).__name__,
                "subject": subject,
                "numbers": numbers[start:end],
                "first": first,
                "last": last,
                "late": context.late,
                "key": key,
                "pack": context.key,
                "attempt": context.attempt,
                "reason": context.reason,
                "batch": context.batch_id,
                "query": context.query,
            },
        )


async def take_async(rows: Any, context: Any, *, path: str) -> None:
    """Note the rows as `take` does, on an event loop."""
    take(rows, context, path=path)


def fail_at(rows: Any, context: Any, *, path: str, number: int, how: str = "error") -> None:
    """Note the rows as `take` does, but fail at a row; with "once", only at the first attempt."""
    if any(_n(row) == number for row in rows):
        first = not Path(f"{path}.failed").exists()
        Path(f"{path}.failed").touch()
        if how == "reject":
            raise Reject("not wanted")
        if how == "retry" and first:
            raise Retry(after=0.01)
        if how == "throttled" and first:
            raise Throttled(retry_after=0.01)
        if how == "error" or (how == "once" and first):
            raise RuntimeError(f"row {number} is not liked")
    take(rows, context, path=path)


def only_rows(rows: list[Any]) -> None:
    """Take rows without a context."""


def noting(function: Callable[..., Any], path: Path, **options: Any) -> functools.partial[Any]:
    """Return the handler that notes in `path`."""
    return functools.partial(function, path=str(path), **options)


def _n(row: Any) -> Any:
    return row[-1] if isinstance(row, tuple) and not hasattr(row, "asDict") else row["n"]
