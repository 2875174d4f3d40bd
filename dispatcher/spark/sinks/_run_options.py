"""How micro-batches are told apart, remembered and split up: what every sink is told about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.spark.micro_batch import MicroBatch
from limiters._redis.url import checked
from limiters._support.callables import check_plain
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    Seconds,
    flag,
    key_part,
    named,
    optional_count,
    seconds,
)

LEASE = 5.0
SHORTEST_LEASE = 1.0
LONGEST_LEASE = 86_400.0
LONGEST_MEMORY = 100 * 366 * 86_400.0
MOST_PARTITIONS = 100_000
"""Tasks of one micro-batch: more are most likely a mistake, and Spark takes long to say so."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """See SubjectSink for what each of them means."""

    query: str | None
    checkpoint: str | None
    redis: str | None
    ledger: bool
    prefix: str
    lease_time: Seconds
    remember: Seconds
    partitions: int | None
    on_micro_batch: Callable[[MicroBatch], object] | None

    def __post_init__(self) -> None:
        if self.query is not None and not (isinstance(self.query, str) and self.query):
            raise ArgumentError("query", self.query, "be a text that is not empty")
        if self.on_micro_batch is not None:
            check_plain("on_micro_batch", self.on_micro_batch)
        if self.checkpoint is not None and not (
            isinstance(self.checkpoint, str) and self.checkpoint
        ):
            raise ArgumentError("checkpoint", self.checkpoint, "be a path")
        if self.redis is not None and not isinstance(self.redis, str):
            raise ArgumentError(
                "redis",
                self.redis,
                "be a URL that executors can be given, such as redis://host:6379/0",
            )
        flag("ledger", self.ledger)
        key_part("prefix", self.prefix)
        lease = seconds("lease_time", self.lease_time)
        if lease < SHORTEST_LEASE:
            raise ArgumentError("lease_time", self.lease_time, f"be at least {SHORTEST_LEASE:g}")
        if lease > LONGEST_LEASE:
            raise ArgumentError(
                "lease_time",
                self.lease_time,
                f"be at most {LONGEST_LEASE:g} seconds",
                "a successor of a killed task waits for that long",
            )
        if seconds("remember", self.remember) > LONGEST_MEMORY:
            raise ArgumentError("remember", self.remember, "be at most 100 years")
        if (optional_count("partitions", self.partitions) or 0) > MOST_PARTITIONS:
            raise ArgumentError("partitions", self.partitions, f"be at most {MOST_PARTITIONS:,}")

    def url(self, of_limit: str | None) -> str | None:
        """Where it is kept what was sent: `redis`, or where the limit is; checked."""
        url = self.redis or of_limit
        if self.ledger and url is None:
            raise ArgumentError(
                "redis",
                UNSHOWN,
                "say where it is kept what was sent, such as redis://host:6379/0",
                "or give a limiter with a url, or ledger=False to send everything again in a "
                "replay",
            )
        if url is not None:
            with named({"url_or_client": "redis"}):
                checked(url)
        return url
