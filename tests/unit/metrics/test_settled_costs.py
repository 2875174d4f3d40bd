"""Law Z6: metrics show estimated and actual costs, and what was learned."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from dispatcher import Batcher, Learned, Operation, Watcher
from dispatcher.metrics import instrument
from dispatcher.metrics._kinds.learned import MOST_KINDS
from dispatcher.testing import InlineBatcher, ManualClock
from limiters import Limits, ProvisionedResource, Rate


def run(batcher: Batcher, *costs: object, of: float = 0.25) -> None:
    def answer(batch: list[Operation]) -> None:
        for one in batch:
            if isinstance(one.cost, (int, float)):
                one.settle(one.cost * of)
            else:
                one.settle({"tokens": one.cost["tokens"] * of})

    watcher = Watcher(answer, max_batch_size=1)
    with batcher:
        batcher.enqueue_many([Operation(watcher, cost, None) for cost in costs])  # type: ignore[arg-type]
        batcher.drain()


def test_estimated_and_actual_costs_of_settled_batches_are_counted() -> None:
    registry = CollectorRegistry()
    batcher = InlineBatcher()
    instrument(batcher, registry, name="answers")
    labels = {"batcher": "answers", "limit": ""}
    assert registry.get_sample_value("dispatcher_settled_cost_total", labels) is None
    run(batcher, 100, 300)
    for kind, cost in (("estimated", 400), ("actual", 100)):
        of_kind = labels | {"kind": kind}
        assert registry.get_sample_value("dispatcher_settled_cost_total", of_kind) == cost
    name = "dispatcher_settled_cost_ratio"
    assert registry.get_sample_value(f"{name}_count", labels) == 2
    assert registry.get_sample_value(f"{name}_bucket", labels | {"le": "0.2"}) == 0
    assert registry.get_sample_value(f"{name}_bucket", labels | {"le": "0.3"}) == 2


def test_they_are_counted_by_dimension() -> None:
    registry, clock = CollectorRegistry(), ManualClock()
    limits = Limits(requests=Rate(100), tokens=Rate(10_000, burst=10_000))
    limiter = ProvisionedResource(limits, clock=clock)
    batcher = InlineBatcher(clock=clock, rate_limiter=limiter)
    instrument(batcher, registry, name="answers")
    run(batcher, {"requests": 1, "tokens": 400})

    def of(dimension: str) -> list[float | None]:
        labels = {"batcher": "answers", "limit": "answers", "dimension": dimension}
        name = "dispatcher_settled_cost_total"
        return [
            registry.get_sample_value(name, labels | {"kind": kind})
            for kind in ("estimated", "actual")
        ]

    assert of("tokens") == [400, 100]
    assert of("requests") == [1, 1]


def test_what_was_learned_is_shown_of_a_bounded_number_of_kinds() -> None:
    registry = CollectorRegistry()
    cost = Learned(500, by=int)
    instrument(cost, registry, name="answers")
    for kind in range(100):
        cost.learn(kind, 10)
    for _ in range(20):
        cost.learn(7, 10)
    shown = [
        sample
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "dispatcher_learned_cost"
    ]
    assert len(shown) == MOST_KINDS
    estimates = {sample.labels["kind"]: sample.value for sample in shown}
    assert 10 <= estimates["7"] <= 10.5
    assert estimates["99"] == 500
    labels = {"learned": "answers", "kind": "7"}
    assert registry.get_sample_value("dispatcher_learned_settlements_total", labels) == 21
