"""Spending of the fleet, as all who look see it, is at actual cost once that is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import Options, parts_of
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.limit_readings import read_limit
from dispatcher.metrics._names import Metric
from dispatcher.metrics.readings import Reading
from limiters import Limits, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.waiting import until

CLUSTER = names.CLUSTER_SPENT, names.CLUSTER_REFUNDED, names.CLUSTER_EXCESS
INSTANCE = names.SPENT, names.REFUNDED, names.EXCESS

Opened = Callable[[str], RedisLeaseManager]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
def opened(server: EmbeddedRedis) -> Iterator[Opened]:
    """Open the leases of a limit."""
    with ExitStack() as ended:
        yield lambda name: ended.enter_context(
            closing(RedisLeaseManager(server.url, name=name, lease_time=2))
        )


def counters(
    readings: Iterator[Reading], metrics: tuple[Metric, ...], kind: str, dimension: str = ""
) -> list[Any]:
    """Return the estimated cost, refunds and excess of one window."""
    values = {(one.metric, one.labels): one.value for one in readings}
    label = (dimension,) if dimension else ()
    [limit] = {labels[0] for (metric, labels) in values if metric in metrics}
    return [values[metric, (limit, kind, *label)] for metric in metrics]


def settled(limiter: SharedResource, cost: Any, actuals: list[Any]) -> None:
    """Have callbacks settle these costs, one each, and wait for the last report."""

    def answer(batch: list[Operation]) -> None:
        for one in batch:
            one.settle(one.payload)

    watcher = Watcher(answer, max_batch_size=1)
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many([Operation(watcher, cost, actual) for actual in actuals])
        assert batcher.drain(30)


@pytest.mark.parametrize(
    ("capacity", "kind"), [(10_000, "shared"), (400, "shared"), (None, "reserved")]
)
def test_a_third_of_the_estimate_is_a_third_of_the_use(
    opened: Opened, capacity: float | None, kind: str
) -> None:
    """By shares, by permits (another instance wants as much) and by what is reserved."""
    manager = opened(f"{capacity} {kind}")
    limiter, other = (
        SharedResource(
            shared_capacity=capacity or 100,
            reserved_capacity=0 if capacity else 10_000,
            lease_manager=manager,
            max_interval=0.1,
            period=0.3,
        )
        for _ in range(2)
    )
    [part] = parts_of(limiter, Options())
    with other:
        if capacity == 400:
            other.give_me(300)
            until(lambda: other.partitions)
        settled(limiter, 300, [100.0, 310.0])
    assert bool(limiter.standing().permits) == (capacity == 400)
    expected = [600, 200, 10]
    view = manager.look()
    assert view is not None
    assert counters(read_limit("api", view, members=True), CLUSTER, kind) == expected
    assert counters(iter(part.read()), INSTANCE, kind) == expected


def test_each_dimension_and_each_of_its_windows_has_its_own(opened: Opened) -> None:
    manager = opened("several")
    limits = Limits.parse("requests=100/1s,tokens=90000/60s+80000/1s,calls=5slots")
    limiter = SharedResource(shared_capacity=limits, lease_manager=manager, max_interval=0.1)
    cost = {"requests": 1, "tokens": 300, "calls": 1}
    settled(limiter, cost, [{"tokens": 100}, {"tokens": 400}])
    view = manager.look()
    assert view is not None

    def of(dimension: str) -> list[Any]:
        return counters(read_limit("api", view, members=False), CLUSTER, "shared", dimension)

    assert of("requests") == [2, 0, 0]
    assert of("tokens") == of("tokens/1s") == [600, 200, 100]
    assert of("calls") == [2, 0, 0]


def test_counters_never_fall_and_leases_show_what_counts(opened: Opened) -> None:
    """`dispatcher leases` shows what counts, with the estimates of calls that run."""
    manager = opened("running")
    limiter = SharedResource(
        shared_capacity=1_000, factor=10, lease_manager=manager, max_interval=0.1, period=60
    )
    seen: list[list[float]] = []

    def seen_is(counted: list[float], counts: float) -> bool:
        view = manager.look()
        assert view is not None
        seen.append(counters(read_limit("api", view, members=False), CLUSTER, "shared"))
        shown = sum(one.spent for one in view.instances)
        return seen[-1] == counted and shown == pytest.approx(counts)

    with limiter:
        limiter.give_me(10)  # it goes on asking
        with limiter.reserve(90, timeout=10) as paid:
            until(lambda: seen_is([90, 0, 0], 90))
            paid.settle(30)
            until(lambda: seen_is([90, 0, 0], 90))
        until(lambda: seen_is([90, 60, 0], 30))
        with limiter.reserve(20, timeout=10) as paid:
            paid.settle(50)
        until(lambda: seen_is([110, 60, 30], 80))
    assert seen_is([110, 60, 30], 0), "it has left"
    for before, after in itertools.pairwise(seen):
        assert all(one <= other for one, other in zip(before, after, strict=True))
