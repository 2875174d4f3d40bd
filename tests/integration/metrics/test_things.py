"""Metrics of limiters, gates, builders and topics."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from dispatcher import Batcher, ProvisionedResource, Watcher
from dispatcher.builders import EventTimeBuilder, SubjectBuilder
from dispatcher.metrics import (
    instrument,
)
from dispatcher.registration import MemoryEntityStore, RegistrationGate
from dispatcher.timeline import Message, Timeline
from limiters import InFlight, Limits, MemoryLeaseManager, Rate, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.integration.metrics.shown import Shown, operations
from tests.waiting import LONG, until


def test_a_limiter_comes_with_its_batcher(shown: Shown) -> None:
    limiter = SharedResource(
        shared_capacity=10_000,
        reserved_capacity=5,
        factor=1_000,
        lease_manager=MemoryLeaseManager("orders", lease_time=LONG),
        max_interval=0.05,
    )
    watcher = Watcher(lambda batch: None, max_batch_size=10)
    batcher = Batcher(rate_limiter=limiter)
    instrument(batcher, shown.registry)
    instrument(limiter, shown.registry)  # again is no error, and counts nothing twice
    with batcher:
        limiter.give_me(3_005, "a claimant that waits meanwhile")
        until(lambda: shown("fair_share") == pytest.approx(3))
        held = shown("partitions", state="held")
        assert held >= 3  # no other instance wants any
        assert shown("capacity", limit="orders", kind="shared") == pytest.approx(1_000 * held)
        assert shown("partitions", state="wanted") == 3
        assert shown("permit_turn") == shown("uncertain_seconds") == shown("refused") == 0
        limiter.give_me(0, "a claimant that waits meanwhile")
        batcher.enqueue_many(operations(watcher, 100, cost=10))
        assert batcher.drain(30)
    spent = [shown("spent_cost_total", kind=kind) for kind in ("shared", "reserved")]
    assert sum(spent) == pytest.approx(1_000)
    assert shown("capacity", kind="max") == 10_005
    assert shown("capacity", kind="reserved") == 5
    assert shown("capacity", kind="shared") == 0
    assert shown("demand") == 0
    assert shown("sync_seconds_count") >= 2
    assert shown("sync_failures_total") == 0
    assert shown("redis_up") == 1
    assert shown("batches_total", limit="orders", outcome="done") == 100 / 10


def test_costs_in_several_dimensions_are_shown_by_dimension(shown: Shown) -> None:
    limits = Limits(requests=Rate(100), tokens=Rate(10_000), calls=InFlight(5))
    limiter = ProvisionedResource(limits)
    go_on = threading.Event()
    watcher = Watcher(
        lambda batch: go_on.wait(LONG), max_batch_size=10, batch_cost={"requests": 1, "calls": 1}
    )
    batcher = Batcher(rate_limiter=limiter)
    instrument(batcher, shown.registry, name="api")
    assert shown("needs_capacity", dimension="tokens") == 0
    with batcher:
        batcher.enqueue_many(operations(watcher, 20, cost={"tokens": 5}))
        until(lambda: shown("inflight_batches") == 2)
        assert shown("needs_capacity", dimension="tokens") == 100
        assert shown("needs_capacity", dimension="requests") == 0
        go_on.set()
        assert batcher.drain(30)
    for dimension, capacity, spent in (("requests", 100, 2), ("tokens", 10_000, 100)):
        assert shown("capacity", kind="max", dimension=dimension) == capacity
        assert shown("spent_cost_total", kind="reserved", dimension=dimension) == spent
        assert shown("batch_cost_sum", dimension=dimension) == spent
        assert shown("batch_cost_count", dimension=dimension) == 2
        assert shown("demand", dimension=dimension) == 0
    assert shown("capacity", kind="max", dimension="calls") == 5


def test_limiters_of_one_process_and_of_the_users_own(shown: Shown) -> None:
    class Own(ProvisionedResource):
        pass

    limiter = ProvisionedResource(100)
    instrument(limiter, shown.registry, name="api")
    with_ledger = limiter.grant(40)
    with_ledger.spend(40).started(time.monotonic())
    assert shown("capacity", limit="api", kind="reserved") == 100
    assert shown("spent_cost_total", limit="api", kind="reserved") == 40
    own = Own(7)
    instrument(own, shown.registry, name="own")
    assert shown("capacity", limit="own", kind="max") == 7


def test_gates_and_builders(shown: Shown) -> None:
    gate: RegistrationGate = RegistrationGate(MemoryEntityStore(), telemetry_per_entity=2)
    instrument(gate, shown.registry, name="meters")
    for number in range(5):
        gate.offer("meter", number)
    assert shown("registration_pending", gate="meters") == 1
    assert shown("registration_held_total") == 5
    assert shown("registration_dropped_total", reason="displaced") == 3
    gate.register("meter")
    assert shown("registration_released_total") == 2
    builder: EventTimeBuilder[Any] = EventTimeBuilder(
        10, 5, key=lambda it: it[0], event_time=lambda it: it[1]
    )
    instrument(builder, shown.registry, name="windows")
    for message in (("a", 1), ("a", 1), ("b", 2)):
        builder.add(message, 3)
    assert shown("builder_open_batches", builder="windows") == 1
    assert shown("builder_dropped_total", reason="duplicate") == 1
    subjects: SubjectBuilder[Any] = SubjectBuilder(
        subject=lambda it: it[0], event_time=lambda it: it[1]
    )
    instrument(subjects, shown.registry, name="subjects")
    subjects.add(("a", 1))
    assert shown("builder_messages", builder="subjects") == 1


def test_a_topic_and_how_late_its_messages_are(shown: Shown, shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "mails", buckets=4, max_attempts=1)
    instrument(timeline, shown.registry)
    timeline.producer("shop").create([Message(b"now"), Message(b"now"), Message(b"x", delay=900)])
    consumer = timeline.consumer("one")
    until(lambda: timeline.due_within(0) == 2)
    assert len(consumer.lease(10, 0.5)) == 2
    assert shown("timeline_lateness_seconds_count", topic="mails") == 2
    assert 0 <= shown("timeline_lateness_seconds_sum") < 60
    assert shown("timeline_messages", state="waiting") == 1
    assert shown("timeline_created_total") == 3
    assert abs(shown("clock_drift_seconds")) < 60
    until(lambda: shown("timeline_messages", state="lost") == 2)
    until(lambda: shown("timeline_oldest_due_seconds") > 0)
    assert consumer.lease(10, 1) == []
    assert shown("timeline_dead_total") == 2
    assert shown("timeline_messages", state="dead") == 2
    until(lambda: shown("timeline_late_messages", longer_than="1") == 0)
    timeline.close()


def test_late_messages_are_counted_by_how_late_they_are(
    shown: Shown, shared_redis: EmbeddedRedis
) -> None:
    timeline = Timeline(shared_redis.url, "mails", buckets=4)
    timeline.producer("shop").create([Message(b"x") for _ in range(3)])
    until(lambda: timeline.late([0.05]) == [3])
    assert timeline.late([0.05, 500]) == [3, 0]
    timeline.close()
