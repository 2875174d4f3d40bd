"""The options of a Worker, each declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenacity.wait import wait_exponential_jitter

from dispatcher._handler import Target
from dispatcher._retry import RetryPolicy, Stop, Wait
from dispatcher.learned import Learned
from dispatcher.timeline import Timeline
from dispatcher.timeline._encoding.times import milliseconds
from dispatcher.worker._costs import Cost, MessageCosts
from limiters._costs import checked_cost
from limiters._costs_text import read_costs
from limiters._support.options import ConvertedOptions, about, documented
from limiters._support.validation import ArgumentError, Seconds, count, seconds
from limiters.limiter import RateLimiter

RETRY: Wait = wait_exponential_jitter(initial=1, max=300, jitter=1)


MIN_LEASE_TIME = 0.1
"""A shorter lease ends before it can be extended."""


def _lease(name: str, value: object) -> float:
    milliseconds(name, value)  # values that a Timeline would refuse later
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
    if not isinstance(value, Learned):
        checked_cost(name, value)
    return value


def _retry(name: str, value: object) -> object:
    RetryPolicy.of(value, None)
    return value


@documented
@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerOptions(ConvertedOptions):
    """The options of a Worker. Wrong values raise ArgumentError."""

    consumer_id: str | None = field(
        default=None,
        metadata=about(
            "a name of its own; a worker that restarts under it gets its messages back immediately"
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
            read=read_costs,
        ),
    )
    batch_cost: float | Mapping[str, float] | Learned = field(
        default=0,
        metadata=about(
            "cost of a batch, in addition to that of its messages: a number or, for a limit of "
            "several dimensions, as in requests=1,calls=1",
            _batch_cost,
            read=read_costs,
        ),
    )
    concurrency: int = field(
        default=16, metadata=about("how many batches may be in the handler at the same time", count)
    )
    lease_time: Seconds = field(
        default=30.0,
        metadata=about(
            "how long other workers wait for a message whose worker was killed. While the worker "
            "lives, leases are extended",
            _lease,
            unit="s",
        ),
    )
    max_operation_time: Seconds = field(
        default=60.0,
        metadata=about(
            "how long the handler may take. After that, its messages are given out again when "
            "their leases end",
            seconds,
            unit="s",
        ),
    )
    drain_time: Seconds = field(
        default=30.0,
        metadata=about(
            "how long to wait for the handler when the worker stops", _patience, unit="s"
        ),
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
    """All arguments of a Worker."""

    timeline: Timeline = field(
        kw_only=False, metadata=about("the topic with the messages", _timeline)
    )
    handler: Target = field(kw_only=False, metadata=about("the function that handles the messages"))
    rate_limiter: RateLimiter | None = field(metadata=about("the limit for the messages"))
