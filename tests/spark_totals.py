"""The totals that the driver of a query stores, written as dispatcher.spark does."""

from __future__ import annotations

import time

from redis import Redis

PREFIX = "dispatcher:spark:v1"

MICRO_BATCH = {
    "rows": 1_000.0,
    "batches": 10.0,
    "calls": 12.0,
    "sent_rows": 900.0,
    "replayed_rows": 60.0,
    "late_rows": 7.0,
    "rejected_rows": 40.0,
    "held_rows": 3.0,
    "retries": 2.0,
    "throttled": 1.0,
    "cost": 1_200.0,
    "waited": 2.5,
    "handling": 1.5,
    "micro_batches": 1.0,
    "seconds": 4.5,
}


def introduce(client: Redis, query: str) -> None:
    """There is such a query."""
    client.zadd(f"{PREFIX}:known", {query: time.time() * 1000})


def finish(client: Redis, quoted: str, **changes: float) -> None:
    """A micro-batch of it has ended."""
    _add(client, quoted, MICRO_BATCH | changes)


def spend(client: Redis, quoted: str, **costs: float) -> None:
    """A micro-batch of it has ended that has cost something in several dimensions."""
    told = {name: number for name, number in MICRO_BATCH.items() if name != "cost"}
    _add(client, quoted, told | {f"cost:{dimension}": cost for dimension, cost in costs.items()})


def _add(client: Redis, quoted: str, numbers: dict[str, float]) -> None:
    for name, number in numbers.items():
        client.hincrbyfloat(f"{PREFIX}:{{{quoted}}}:totals", name, number)
