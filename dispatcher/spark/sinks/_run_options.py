"""Options of the ledger and of the number of tasks.

A field here is a keyword of both sinks; a field of RunOptions is one of `dispatch` as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from dispatcher.spark.micro_batch import MicroBatch
from limiters._support.callables import check_plain
from limiters._support.options import CheckedOptions, about
from limiters._support.validation import (
    ArgumentError,
    Seconds,
    count,
    flag,
    key_part,
    seconds,
    text,
)

SHORTEST_LEASE = 1.0
LONGEST_LEASE = 86_400.0
LONGEST_MEMORY = 100 * 366 * 86_400.0
MOST_PARTITIONS = 100_000
"""The largest number of tasks of a micro-batch. More are most likely a mistake, which Spark reports
late."""


def _redis(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ArgumentError(
            name, value, "be a URL that executors can be given, such as redis://host:6379/0"
        )


def _remember(name: str, value: object) -> None:
    if seconds(name, value) > LONGEST_MEMORY:
        raise ArgumentError(name, value, "be at most 100 years")


def _partitions(name: str, value: object) -> None:
    if count(name, value) > MOST_PARTITIONS:
        raise ArgumentError(name, value, f"be at most {MOST_PARTITIONS:,}")


def _checkpoint(name: str, value: object) -> None:
    if not (isinstance(value, str) and value):
        raise ArgumentError(name, value, "be a path")


def _lease_time(name: str, value: object) -> None:
    lease = seconds(name, value)
    if lease < SHORTEST_LEASE:
        raise ArgumentError(name, value, f"be at least {SHORTEST_LEASE:g}")
    if lease > LONGEST_LEASE:
        raise ArgumentError(
            name,
            value,
            f"be at most {LONGEST_LEASE:g} seconds",
            "a successor of a killed task waits for that long",
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunOptions(CheckedOptions):
    """Options of where the ledger is kept, and in how many parts rows are sent."""

    redis: str | None = field(
        default=None,
        metadata=about(
            "the URL of the Redis that keeps what was sent; by default that of the limit", _redis
        ),
    )
    prefix: str = field(default="dispatcher", metadata=about("with which its keys begin", key_part))
    remember: Seconds = field(
        default=timedelta(days=7),
        metadata=about(
            "how long a subject's last time is remembered at least", _remember, unit="s"
        ),
    )
    partitions: int | None = field(
        default=None,
        metadata=about(
            "in how many tasks rows are sent; by default as many as there are cores", _partitions
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StreamOptions(RunOptions):
    """Options by which the micro-batches of a query are identified."""

    query: str | None = field(
        default=None,
        metadata=about(
            "the name under which it is remembered what was sent; by default the query's name or "
            "id. No two sinks may have the same",
            text,
        ),
    )
    checkpoint: str | None = field(
        default=None,
        metadata=about(
            "the stream's checkpointLocation. Only Spark Connect needs it, which does not show a "
            "sink which query a micro-batch belongs to",
            _checkpoint,
        ),
    )
    ledger: bool = field(
        default=True,
        metadata=about(
            "whether it is remembered what was sent. False: a replay sends everything again, and "
            "nothing stops a task that is left behind",
            flag,
        ),
    )
    lease_time: Seconds = field(
        default=5.0,
        metadata=about(
            "how long a successor waits at most for tasks that were killed",
            _lease_time,
            unit="s",
        ),
    )
    on_micro_batch: Callable[[MicroBatch], object] | None = field(
        default=None,
        metadata=about("called on the driver with a MicroBatch, when one has ended", check_plain),
    )
