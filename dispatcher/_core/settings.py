"""A Batcher's options, after they were checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The Batcher's options, checked, in seconds."""

    flush_interval: float = 0.1
    capacity_interval: float = 0.1
    audit_interval: float = 10.0
    max_operation_time: float = 60.0
    max_concurrent_batches: int | None = None
    emit_batch: bool = False
    emit_flush: bool = False
    emit_request: bool = False
