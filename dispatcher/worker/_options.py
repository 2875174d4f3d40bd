"""The options of a Worker, each declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenacity.wait import wait_exponential_jitter

from dispatcher._handler import Target
from dispatcher._retry import RetryPolicy, Stop, Wait
from dispatcher.timeline import Timeline
from dispatcher.timeline._encoding.times import milliseconds
from dispatcher.worker._costs import Cost, MessageCosts
from limiters._costs import checked_cost
from limiters._support.options import ConvertedOptions, about, documented
from limiters._support.validation import ArgumentError, Seconds, count, seconds
from limiters.limiter import RateLimiter

RETRY: Wait = wait_exponential_jitter(initial=1, max=300, jitter=1)


MIN_LEASE_TIME = 0.1
"""Shorter ones end before they can be extended."""


def _lease(name: str, value: object) -> float:
    milliseconds(name, value)  # what a Timeline would refuse later
    time = seconds(name, value)
    if time < MIN_LEASE_TIME:
        raise ArgumentError(name, value, f"be at least {MIN_LEASE_TIME} s")
    return time


def _patience(name: str, value: object) -> float:
    return seconds(name, value, zero=True)


def _cost(name: str, value: Cost) -> Cost:
    MessageCosts(value)
    return value


def _batch_cost(name: str, value: object) -> object:
    checked_cost(name, value)
    return value


def _retry(name: str, value: object) -> object:
    RetryPolicy.of(value, None)
    return value


@documented
@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerOptions(ConvertedOptions):
    """How a Worker works. Wrong values are refused when it is made."""

    consumer_id: str | None = field(
        default=None,
        metadata=about(
            "a name of its own; a worker that comes back under it gets its messages back at once"
        ),
    )
    max_batch_size: int = field(default=100, metadata=about("messages in a batch", count))
    flush_interval: Seconds = field(
        default=0.1, metadata=about("how long a batch waits to be full", seconds, unit="s")
    )
    cost: Cost = field(
        default=1,
        metadata=about(
            "what a message costs: a number, the name of a field of its body, or, in Python, a "
            "function of the message. For a limit of several dimensions each of them, as in "
            "requests=1,tokens=size",
            _cost,
        ),
    )
    batch_cost: float | Mapping[str, float] = field(
        default=0,
        metadata=about(
            "what a batch costs besides its messages: a number or, for a limit of several "
            "dimensions, as in requests=1,calls=1",
            _batch_cost,
        ),
    )
    concurrency: int = field(
        default=16, metadata=about("how many batches may be in the handler at once", count)
    )
    lease_time: Seconds = field(
        default=30.0,
        metadata=about(
            "how long no other worker gets a message when its worker is killed. While the worker "
            "lives, leases are extended",
            _lease,
            unit="s",
        ),
    )
    max_operation_time: Seconds = field(
        default=60.0,
        metadata=about(
            "how long the handler may take. Then its messages are not kept any longer: they are "
            "given out again when their leases end",
            seconds,
            unit="s",
        ),
    )
    drain_time: Seconds = field(
        default=30.0,
        metadata=about("how long to wait for the handler when it is to stop", _patience, unit="s"),
    )
    max_attempts: int = field(
        default=10, metadata=about("how often a message is leased before it is dead", count)
    )
    retry: Wait | tuple[Wait, Stop] = field(
        default=RETRY,
        metadata=about("a tenacity wait strategy, or a pair (wait, stop)", _retry),
    )


def _timeline(name: str, value: object) -> object:
    if not isinstance(value, Timeline):
        raise ArgumentError(name, value, "be a Timeline")
    return value


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerArguments(WorkerOptions):
    """All that a Worker is made of."""

    timeline: Timeline = field(kw_only=False, metadata=about("where the work is", _timeline))
    handler: Target = field(kw_only=False, metadata=about("what is given the messages"))
    rate_limiter: RateLimiter | None = field(metadata=about("how fast they are given"))
