"""Metrics of a Batcher, which disturb nothing else."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from dispatcher import Batcher, Operation, PartialFailure, ProvisionedResource, Throttled, Watcher
from dispatcher._core.queues.batch import OperationBatch
from dispatcher.metrics import (
    instrument,
)
from dispatcher.testing import InlineBatcher
from tests.integration.metrics.shown import Shown, operations

LOOK = 0.005


def test_what_became_of_operations_and_batches(shown: Shown) -> None:
    ended = []

    def on_batch(batch: list[Operation]) -> None:
        ended.append(batch)
        if len(ended) == 1:
            raise PartialFailure(batch[:2])
        if len(ended) == 2:
            raise Throttled

    watcher = Watcher(on_batch, max_batch_size=10)
    batcher = Batcher(pause_time=0.01, max_concurrent_batches=1)
    instrument(batcher, shown.registry, name="orders")
    with batcher:
        batcher.enqueue_many(operations(watcher, 40, cost=2))
    assert shown("operations_total", outcome="done") == 38
    assert shown("operations_total", outcome="failed") == 2
    assert shown("batches_total", outcome="done") == 3
    assert shown("batches_total", outcome="failed") == 2
    assert shown("throttled_total") == 1
    assert shown("retries_total") == 10
    assert shown("pauses_total") == 1
    assert shown("batch_size_count") == 5
    assert shown("batch_size_sum") == 50
    assert shown("batch_cost_sum") == 100
    assert shown("operation_wait_seconds_count") == 50
    assert shown("callback_seconds_count") == 5
    assert shown("needs_capacity") == shown("inflight_batches") == shown("buffer_operations") == 0
    assert shown("buffer_size_operations") == 10_000
    [sample] = [
        sample
        for family in shown.registry.collect()
        for sample in family.samples
        if sample.name == "dispatcher_pauses_total"
    ]
    assert sample.labels == {"batcher": "orders", "limit": ""}


def test_what_waits_and_what_is_in_flight_is_shown_while_it_is(shown: Shown) -> None:
    entered, leave = threading.Event(), threading.Event()

    def on_batch(batch: list[Operation]) -> None:
        entered.set()
        leave.wait(30)

    watcher = Watcher(on_batch, max_batch_size=1)
    batcher = Batcher(max_concurrent_batches=1)
    instrument(batcher, shown.registry)
    with batcher:
        batcher.enqueue_many(operations(watcher, 3, cost=5))
        assert entered.wait(30)
        assert shown("inflight_batches") == 1
        assert shown("buffer_operations") == 2
        assert shown("needs_capacity") == 15
        batcher.pause(30)
        assert shown("paused") == 1
        leave.set()
        batcher.resume()


def test_waiting_is_measured_from_the_first_enqueue(shown: Shown) -> None:
    waits: list[float] = []

    def on_batch(batch: list[Operation]) -> None:
        waits.extend(batcher.clock.now() - one.payload for one in batch)

    watcher = Watcher(on_batch, max_batch_size=50)
    batcher = InlineBatcher(flush_interval=0.2)
    instrument(batcher, shown.registry)
    with batcher:
        for number in range(120):
            batcher.enqueue(Operation(watcher, 1, batcher.clock.now(), batchable=True))
            if number % 10 == 0:
                batcher.turn(LOOK)
    assert shown("operation_wait_seconds_count") == 120
    # The error of single operations stays within the time between two looks of the engine.
    assert shown("operation_wait_seconds_sum") == pytest.approx(sum(waits), abs=120 * LOOK)
    assert shown("operation_wait_seconds_bucket", le="0.25") == 120
    assert sum(waits) > 120 * LOOK


def test_an_operation_that_waits_alone_waits_exactly_as_long_as_it_does(shown: Shown) -> None:
    batcher = InlineBatcher()
    instrument(batcher, shown.registry)
    with batcher:
        batcher.clock.advance(0.3)  # idle: of this nothing may count
        batcher.pause(0.4)
        batcher.clock.advance(0.1)
        batcher.enqueue(Operation(Watcher(lambda batch: None), 1, None))
        assert batcher.drain()
    assert shown("operation_wait_seconds_sum") == pytest.approx(0.3)


class Bad:
    """An observer that raises whenever it is called."""

    def __init__(self) -> None:
        self.calls = 0

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        self.calls += 1
        raise RuntimeError

    def raised(self, batch: OperationBatch, now: float) -> None:
        raise AssertionError("it was called again")

    def returned(self, batch: OperationBatch, seconds: float) -> None:
        raise AssertionError("it was called again")


def test_an_observer_that_raises_breaks_nothing_and_is_forgotten(
    shown: Shown, caplog: pytest.LogCaptureFixture
) -> None:
    bad, watcher, batcher = Bad(), Watcher(lambda batch: None), Batcher()
    batcher.observe(bad)
    instrument(batcher, shown.registry)
    with batcher:
        batcher.enqueue_many(operations(watcher, 100))
    assert bad.calls == 1
    assert shown("operations_total", outcome="done") == 100
    assert shown("batch_size_sum") == 100
    said = [it.message.partition(":")[0] for it in caplog.records if it.module == "observers"]
    assert said == ["an observer raised, and is not called again"]


def test_exemplars_are_shown_with_callbacks_and_one_that_raises_costs_only_itself(
    shown: Shown,
) -> None:
    def trace(batch: list[Operation]) -> dict[str, str]:
        return {"trace_id": f"trace-{batch[0].payload}"}

    watcher = Watcher(lambda batch: None)
    for exemplar in (trace, lambda batch: {"trace_id": "x" * 500}, lambda batch: 1 / 0):
        batcher = Batcher()
        instrument(batcher, shown.registry, exemplar=exemplar)  # type: ignore[arg-type]
        with batcher:
            batcher.enqueue_many(operations(watcher, 3))
    text = generate_openmetrics(shown.registry).decode()  # type: ignore[no-untyped-call]
    assert '# {trace_id="trace-0"}' in text
    assert list(parse_openmetrics(text))  # type: ignore[no-untyped-call]
    assert shown("operations_total", outcome="done") == 9


def test_costs_have_buckets_of_the_users_own(shown: Shown) -> None:
    batcher = Batcher()
    instrument(batcher, shown.registry, cost_buckets=[0.5, 3])
    with batcher:
        batcher.enqueue(Operation(Watcher(lambda batch: None), 2, None))
    assert shown("batch_cost_bucket", le="0.5") == 0
    assert shown("batch_cost_bucket", le="3.0") == 1


@pytest.mark.parametrize("name", ["orders", None])
def test_a_batcher_and_its_limiter_have_one_label_by_which_they_are_joined(
    shown: Shown, name: str | None
) -> None:
    class Own(ProvisionedResource):
        pass

    label = name or "default"
    for kind in (ProvisionedResource, Own):
        batcher = Batcher(rate_limiter=kind(70))
        with instrument(batcher, shown.registry, name=name):
            assert shown("buffer_size_operations", batcher=label, limit=label) == 10_000
            assert shown("capacity", limit=label, kind="max") == 70


@pytest.mark.parametrize("first", ["batcher", "limiter"])
def test_all_batchers_on_a_limiter_without_a_name_have_the_label_it_is_shown_under(
    shown: Shown, first: str
) -> None:
    limiter = ProvisionedResource(70)
    batchers = {name: Batcher(rate_limiter=limiter) for name in "ab"}
    label = "a"
    if first == "limiter":
        label = "store"
        instrument(limiter, shown.registry, name=label)
    for name, batcher in batchers.items():
        instrument(batcher, shown.registry, name=name)
        assert shown("buffer_size_operations", batcher=name, limit=label) == 10_000
    assert shown("capacity", limit=label, kind="max") == 70
