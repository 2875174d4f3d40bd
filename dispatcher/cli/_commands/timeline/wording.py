"""Words for messages and outcomes. Pure."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dispatcher.cli._text.moments import from_now
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import (
    AlreadyGone,
    Created,
    Deleted,
    Duplicate,
    Invalid,
    Leased,
    MessageOutcome,
    Moved,
    NoAnswer,
    NotFound,
    NotOwner,
    Snapshot,
    Status,
    TimeInPast,
    VersionConflict,
)

WORDS: Mapping[type[MessageOutcome], str] = {
    Created: "created",
    Deleted: "deleted",
    AlreadyGone: "already gone",
    Moved: "moved",
    Duplicate: "there before",
    Invalid: "invalid",
    Leased: "leased by a consumer",
    NotFound: "not found",
    NotOwner: "of another group",
    VersionConflict: "changed meanwhile",
    TimeInPast: "refused, as the time is past",
    NoAnswer: "without an answer",
}

WHAT_TIME_IS = {
    Status.NEW: "due",
    Status.WAITING: "due",
    Status.LOST: "lease ended",
    Status.PROCESSING: "lease ends",
    Status.DEAD: "died",
}


def tally(outcomes: Iterable[MessageOutcome]) -> Counter[str]:
    """Count the outcomes by their words."""
    return Counter(WORDS[type(outcome)] for outcome in outcomes)


def summed_up(counts: Mapping[str, int]) -> str:
    """Return counts in words.

    >>> summed_up({"deleted": 1_200, "not found": 1})
    '1,200 deleted, 1 not found'
    """
    return ", ".join(f"{number:,} {word}" for word, number in counts.items()) or "nothing to do"


def interrupted(counts: Mapping[str, int]) -> str:
    """Return the message after an interruption: the current step may have been carried out too.

    >>> interrupted({"deleted": 1_500})
    'interrupted: 1,500 deleted, and perhaps a few more\\n'
    """
    return f"interrupted: {summed_up(counts)}, and perhaps a few more\n"


def messages(number: int) -> str:
    """Return a number of messages in words.

    >>> messages(1), messages(2_000)
    ('1 message', '2,000 messages')
    """
    return f"{number:,} message{'s' * (number != 1)}"


def time_of(snapshot: Snapshot, now_ms: float) -> str:
    """Return what happens to a message, and when; or what has happened."""
    return f"{WHAT_TIME_IS[snapshot.status]} {from_now(snapshot.time, now_ms)}"


def body_text(snapshot: Snapshot) -> str:
    """Return a body in one line."""
    if snapshot.status is Status.PROCESSING:
        return "-"
    if isinstance(snapshot.body, str):
        return printable(snapshot.body)
    if isinstance(snapshot.body, bytes):
        return printable(repr(snapshot.body))
    return printable(json.dumps(snapshot.body, ensure_ascii=False))


def cropped(text: str, most: int) -> str:
    """Return a text no longer than `most`.

    >>> cropped("abcdef", 4), cropped("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a message for scripts; `create` reads the same body."""
    body: dict[str, Any] = {"body": snapshot.body}
    if isinstance(snapshot.body, bytes):
        body = {"body_base64": base64.b64encode(snapshot.body).decode()}
    return {
        "id": snapshot.id,
        "group": snapshot.group,
        "state": snapshot.status.value,
        "time": snapshot.time,
        "attempts": snapshot.attempts,
        "version": snapshot.version,
        **({"reason": snapshot.reason} if snapshot.reason else {}),
        **body,
    }
