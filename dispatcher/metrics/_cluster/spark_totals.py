"""Totals of the sinks of Spark, which their drivers store with each micro-batch.

Read from Redis alone and without pyspark; dispatcher.spark, which writes it, need not be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from dispatcher.metrics import _names as names
from dispatcher.metrics.readings import Reading
from limiters._stats.histogram import Histogram

FORMAT = "v1"

COST_OF = "cost:"
"""Fields of costs by dimension begin with this, and end with the name of the dimension."""

OUTCOMES = ("sent", "replayed", "rejected", "held", "late")


def queries_key(prefix: str) -> str:
    """The key of the sorted set of all queries, by the time of their last micro-batch."""
    return f"{prefix}:spark:{FORMAT}:known"


def totals_key(prefix: str, query: str) -> str:
    """The key of what a query has done.

    >>> totals_key("dispatcher", "orders {eu}")
    'dispatcher:spark:v1:{orders%20%7Beu%7D}:totals'
    """
    return f"{prefix}:spark:{FORMAT}:{{{quote(query, safe='')}}}:totals"


def queries_of(client: Any, prefix: str) -> list[str]:
    """All that there are. Errors are redis-py's."""
    return sorted(_text(one) for one in client.zrange(queries_key(prefix), 0, -1))


def read_query(client: Any, prefix: str, query: str) -> list[Reading]:
    """Read the totals of a query: zeros if none of its micro-batches has ended yet. Errors are
    those of redis-py."""
    stored = client.hgetall(totals_key(prefix, query))
    return list(readings(query, {_text(name): float(value) for name, value in stored.items()}))


def readings(query: str, told: Mapping[str, float]) -> Iterator[Reading]:
    """Convert totals, by name, to values of metrics. Pure."""

    def said(name: str) -> float:
        return told.get(name, 0.0)

    for outcome in OUTCOMES:
        yield Reading(names.SPARK_ROWS, (query, outcome), said(f"{outcome}_rows"))
    seconds = Histogram(())
    seconds.counts, seconds.sum = [round(said("micro_batches"))], said("seconds")
    yield Reading(names.SPARK_SECONDS, (query,), seconds)
    for metric, name in (
        (names.SPARK_INPUT, "rows"),
        (names.SPARK_BATCHES, "batches"),
        (names.SPARK_CALLS, "calls"),
        (names.SPARK_HANDLING, "handling"),
        (names.SPARK_WAITED, "waited"),
        (names.SPARK_RETRIES, "retries"),
        (names.SPARK_THROTTLED, "throttled"),
    ):
        yield Reading(metric, (query,), said(name))
    by_dimension = {name: it for name, it in told.items() if name.startswith(COST_OF)}
    if "cost" in told or not by_dimension:
        yield Reading(names.SPARK_COST, (query,), said("cost"))
    for name, cost in by_dimension.items():
        yield Reading(names.SPARK_COST, (query, name.removeprefix(COST_OF)), cost)


def _text(told: bytes | str) -> str:
    return told.decode("utf-8", "surrogateescape") if isinstance(told, bytes) else told
