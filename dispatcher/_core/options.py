"""The options of a Batcher. Each is declared here only, and the parts of the engine read it
here."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatcher._core.limiter_link import checked_limiter
from dispatcher._core.pause import checked_pause_time
from dispatcher._retry import Wait
from limiters._support.clock import Clock
from limiters._support.options import ConvertedOptions, about
from limiters._support.validation import Seconds, count, flag, seconds
from limiters.limiter import RateLimiter


@dataclass(frozen=True, kw_only=True)
class BatcherOptions(ConvertedOptions):
    """The checked options of a Batcher. Durations are in seconds."""

    rate_limiter: RateLimiter | None = field(
        default=None,
        metadata=about(
            "the limiter that grants capacity; without one, nothing is limited", checked_limiter
        ),
    )
    max_buffer_size: int = field(
        default=10_000,
        metadata=about(
            "how many operations may wait; when they do, `enqueue` blocks, or raises "
            "BufferFullError with `error_on_full_buffer`",
            count,
        ),
    )
    flush_interval: Seconds = field(
        default=0.1,
        metadata=about(
            "how long an operation waits at most for others to share its batch; a full batch and "
            "a full buffer do not wait",
            seconds,
            unit="s",
        ),
    )
    capacity_interval: Seconds = field(
        default=0.1,
        metadata=about("how often the limiter is asked for capacity", seconds, unit="s"),
    )
    audit_interval: Seconds = field(
        default=10.0,
        metadata=about(
            "how often `needs_capacity` is compared with the cost of what has not ended",
            seconds,
            unit="s",
        ),
    )
    max_operation_time: Seconds = field(
        default=60.0,
        metadata=about(
            "how long a callback may take before its batch is abandoned", seconds, unit="s"
        ),
    )
    pause_time: Seconds | Wait = field(
        default=0.5,
        metadata=about(
            "how long `pause()` lasts: seconds, or a tenacity wait strategy", checked_pause_time
        ),
    )
    error_on_full_buffer: bool = field(
        default=False, metadata=about("raise BufferFullError instead of waiting for a place", flag)
    )
    max_concurrent_batches: int | None = field(
        default=None,
        metadata=about(
            "how many batches may be in flight; None: any number of coroutines, and 2,000 plain "
            "functions",
            count,
        ),
    )
    emit_batch: bool = field(
        default=False, metadata=about("raise the event `batch`, for each batch", flag)
    )
    emit_flush: bool = field(
        default=False,
        metadata=about("raise the events `flush-start` and `flush-done`, for each flush", flag),
    )
    emit_request: bool = field(
        default=False,
        metadata=about("raise the event `request`, when the limiter is asked for capacity", flag),
    )
    clock: Clock | None = field(
        default=None,
        metadata=about("the source of time; a ManualClock of `limiters.testing`, for tests"),
    )
