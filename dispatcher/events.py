"""Names of the events that a Batcher emits, by `limiters.events`."""

from __future__ import annotations

from limiters.events import ERROR, SHUTDOWN, Event, Listener

AUDIT_FAIL = "audit-fail"
AUDIT_PASS = "audit-pass"
AUDIT_SKIP = "audit-skip"
BATCH = "batch"
BATCH_ABANDONED = "batch-abandoned"
BATCH_FAILED = "batch-failed"
FLUSH_DONE = "flush-done"
FLUSH_START = "flush-start"
PAUSE = "pause"
REQUEST = "request"
RESUME = "resume"

BATCHER_EVENTS = frozenset(
    {
        AUDIT_FAIL,
        AUDIT_PASS,
        AUDIT_SKIP,
        BATCH,
        BATCH_ABANDONED,
        BATCH_FAILED,
        ERROR,
        FLUSH_DONE,
        FLUSH_START,
        PAUSE,
        REQUEST,
        RESUME,
        SHUTDOWN,
    }
)

__all__ = [
    "AUDIT_FAIL",
    "AUDIT_PASS",
    "AUDIT_SKIP",
    "BATCH",
    "BATCHER_EVENTS",
    "BATCH_ABANDONED",
    "BATCH_FAILED",
    "ERROR",
    "FLUSH_DONE",
    "FLUSH_START",
    "PAUSE",
    "REQUEST",
    "RESUME",
    "SHUTDOWN",
    "Event",
    "Listener",
]
