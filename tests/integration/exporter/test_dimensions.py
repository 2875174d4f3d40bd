"""Metrics of a limit of several dimensions, from the exporter and a real Redis."""

from __future__ import annotations

from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.cluster import ClusterCollector
from limiters import InFlight, Limits, Rate
from limiters.embedded import EmbeddedRedis
from tests.integration.exporter.exporting import limiter_of, once, read, samples_of
from tests.programs import needs
from tests.servers.prometheus import promtool
from tests.waiting import until

LIMITS = Limits(
    requests=Rate(200, also=[Rate(100, per=0.2)]), tokens=Rate(90_000), calls=InFlight(4)
)
CALL = {"requests": 1, "tokens": 50, "calls": 1}


def test_v1_each_dimension_is_counted_exactly_and_by_its_name(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    limiter = limiter_of(
        shared_redis.url, shared_capacity=LIMITS, reserved_capacity={"tokens": 500}
    )
    batches = 0

    def count(batch: list[Operation]) -> None:
        nonlocal batches
        batches += 1

    watcher = Watcher(count, max_batch_size=10, batch_cost={"requests": 1, "calls": 1})
    with Batcher(rate_limiter=limiter, max_concurrent_batches=1) as batcher:
        work = [Operation(watcher, {"tokens": 7}, n, batchable=True) for n in range(300)]
        batcher.enqueue_many(work)
    spent = read(collector, names.CLUSTER_SPENT)
    by_name = {
        dimension: spent["orders", "shared", dimension] + spent["orders", "reserved", dimension]
        for _, kind, dimension in spent
        if kind == "shared"
    }
    whole = {"requests": batches, "requests/0.2s": batches, "tokens": 2_100, "calls": batches}
    assert by_name == whole
    assert spent["orders", "reserved", "tokens"] > 0


def test_n2_slots_of_an_instance_are_busy_then_free_in_what_prometheus_scrapes(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    def slots() -> dict[str, float]:
        found = read(collector, names.CLUSTER_SLOTS)
        assert {dimension for _, _, dimension in found} <= {"calls"}
        return {state: value for (_, state, _), value in found.items()}

    with limiter_of(shared_redis.url, shared_capacity=LIMITS) as limiter:
        with limiter.reserve(CALL, timeout=30), limiter.reserve(CALL, timeout=30):
            until(lambda: slots().get("busy") == 2)
            assert sum(slots().values()) == 4
            told = samples_of(once("--redis", shared_redis.url).stdout)
            assert told["cluster_inflight_slots", "busy", "calls", "orders"] == 2
            assert told["cluster_capacity", "orders", "requests/0.2s", "shared"] == 100
            assert told["cluster_period_seconds", "orders", "requests/0.2s"] == 0.2
        until(lambda: slots()["busy"] == 0)
    until(lambda: slots()["free"] == 4)


@needs("prometheus")
def test_promtool_finds_nothing_in_the_metrics_of_several_dimensions(
    shared_redis: EmbeddedRedis,
) -> None:
    with limiter_of(shared_redis.url, shared_capacity=LIMITS) as limiter:
        assert limiter.acquire({"requests": 1, "tokens": 50}, timeout=30)
        text = once("--redis", shared_redis.url).stdout
    assert promtool("check", "metrics", given=text) == ""
    assert 'dimension="requests/0.2s"' in text
