"""What is shown of a Batcher and all that has metrics, and that nobody is disturbed by it."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from dispatcher import Batcher, Operation, PartialFailure, ProvisionedResource, Throttled, Watcher
from dispatcher.batch import Batch
from dispatcher.builders import EventTimeBuilder, SubjectBuilder
from dispatcher.metrics import (
    MetricsServerError,
    Options,
    Part,
    Reading,
    instrument,
    instrumentable,
    names,
    serve,
)
from dispatcher.registration import MemoryEntityStore, RegistrationGate
from dispatcher.timeline import Message, Timeline
from limiters import MemoryLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.servers import wait_until

Value = Any


class Shown:
    """A registry, and what is in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __call__(self, name: str, **labels: str) -> Value:
        """A sample's value; labels that are left out are those of the only one there is."""
        found = [
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"dispatcher_{name}" and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None


@pytest.fixture
def shown() -> Shown:
    return Shown()


def operations(watcher: Watcher, count: int, cost: float = 1) -> list[Operation]:
    return [Operation(watcher, cost, number, batchable=True) for number in range(count)]


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


def test_waiting_is_reckoned_from_the_first_enqueue(shown: Shown) -> None:
    began: dict[int, float] = {}
    waits: list[float] = []

    def on_batch(batch: list[Operation]) -> None:
        now = time.monotonic()
        waits.extend(now - began[one.payload] for one in batch)

    watcher = Watcher(on_batch, max_batch_size=50)
    batcher = Batcher(flush_interval=0.2)
    instrument(batcher, shown.registry)
    with batcher:
        for number in range(120):
            began[number] = time.monotonic()
            batcher.enqueue(Operation(watcher, 1, number, batchable=True))
            if number % 10 == 0:
                threading.Event().wait(0.005)
    assert shown("operation_wait_seconds_count") == 120
    # What is not known of single ones stays within the time between two looks of the engine.
    assert shown("operation_wait_seconds_sum") == pytest.approx(sum(waits), abs=120 * 0.1)
    assert shown("operation_wait_seconds_bucket", le="0.25") >= sum(it < 0.1 for it in waits) - 20


def test_an_operation_that_waits_alone_waits_exactly_as_long_as_it_does(shown: Shown) -> None:
    batcher = Batcher()
    instrument(batcher, shown.registry)
    with batcher:
        threading.Event().wait(0.3)  # idle: of this nothing may count
        batcher.pause(0.4)
        began = time.monotonic()
        batcher.enqueue(Operation(Watcher(lambda batch: None), 1, None))
        assert batcher.drain()
        waited = time.monotonic() - began
    assert shown("operation_wait_seconds_sum") == pytest.approx(waited, abs=0.1)


class Bad:
    """An observer that raises whenever it is called."""

    def __init__(self) -> None:
        self.calls = 0

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        self.calls += 1
        raise RuntimeError

    def raised(self, batch: Batch, now: float) -> None:
        raise AssertionError("it was told again")

    def returned(self, batch: Batch, seconds: float) -> None:
        raise AssertionError("it was told again")


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
    assert [it.message.partition(":")[0] for it in caplog.records] == [
        "an observer raised, and is told nothing more"
    ]


def test_exemplars_stand_beside_callbacks_and_one_that_raises_costs_only_itself(
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


def test_a_limiter_comes_with_its_batcher(shown: Shown) -> None:
    limiter = SharedResource(
        shared_capacity=10_000,
        reserved_capacity=5,
        factor=1_000,
        lease_manager=MemoryLeaseManager("orders", lease_time=1),
        max_interval=0.05,
    )
    watcher = Watcher(lambda batch: None, max_batch_size=10)
    batcher = Batcher(rate_limiter=limiter)
    instrument(batcher, shown.registry)
    instrument(limiter, shown.registry)  # again is no error, and counts nothing twice
    with batcher:
        batcher.enqueue_many(operations(watcher, 100, cost=10))
        wait_until(lambda: shown("partitions", state="held"))
        assert shown("capacity", limit="orders", kind="shared") == 1_000 * shown(
            "partitions", state="held"
        )
        assert shown("fair_share") > 0
        assert shown("partitions", state="wanted") >= 1
        assert batcher.drain(30)
    spent = [shown("spent_cost_total", kind=kind) for kind in ("shared", "reserved")]
    assert sum(spent) == 1_000
    assert shown("capacity", kind="max") == 10_005
    assert shown("capacity", kind="reserved") == 5
    assert shown("capacity", kind="shared") == 0
    assert shown("demand") == 0
    assert shown("sync_seconds_count") >= 2
    assert shown("sync_failures_total") == 0
    assert shown("redis_up") == 1
    assert shown("batches_total", limit="orders", outcome="done") == 100 / 10


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
    wait_until(lambda: timeline.due_within(0) == 2)
    assert len(consumer.lease(10, 0.1)) == 2
    assert shown("timeline_lateness_seconds_count", topic="mails") == 2
    assert 0 <= shown("timeline_lateness_seconds_sum") < 60
    assert shown("timeline_messages", state="waiting") == 1
    assert shown("timeline_created_total") == 3
    assert abs(shown("clock_drift_seconds")) < 60
    wait_until(lambda: shown("timeline_messages", state="lost") == 2)
    wait_until(lambda: shown("timeline_oldest_due_seconds") > 0)
    assert consumer.lease(10, 1) == []
    assert shown("timeline_dead_total") == 2
    assert shown("timeline_messages", state="dead") == 2
    wait_until(lambda: shown("timeline_late_messages", longer_than="1") == 0)
    timeline.close()


def test_late_messages_are_counted_by_how_late_they_are(
    shown: Shown, shared_redis: EmbeddedRedis
) -> None:
    timeline = Timeline(shared_redis.url, "mails", buckets=4)
    timeline.producer("shop").create([Message(b"x") for _ in range(3)])
    wait_until(lambda: timeline.late([0.05]) == [3])
    assert timeline.late([0.05, 500]) == [3, 0]
    timeline.close()


def test_what_cannot_be_read_hides_nothing_else(
    shown: Shown, own_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    timeline, batcher = Timeline(own_redis.url, "mails", timeout=0.5), Batcher()
    instrument(timeline, shown.registry)
    instrument(batcher, shown.registry)
    assert shown("timeline_created_total") == 0
    own_redis.kill()
    for _ in range(3):
        assert shown("timeline_created_total") is None
        assert shown("throttled_total") == 0
    assert len([it for it in caplog.records if it.name == "dispatcher.metrics"]) == 1
    own_redis.start()
    assert shown("timeline_created_total") == 0
    timeline.close()


def test_what_was_counted_outlives_whoever_counted_it(shown: Shown) -> None:
    watcher = Watcher(lambda batch: None)

    def work() -> None:
        batcher = Batcher()
        instrument(batcher, shown.registry)
        with batcher:
            batcher.enqueue_many(operations(watcher, 10))

    work()
    work()
    gc.collect()
    wait_until(lambda: (gc.collect() and False) or shown("buffer_operations") is None)
    assert shown("operations_total", outcome="done") == 20
    assert shown("batch_size_sum") == 20
    work()
    assert shown("operations_total", outcome="done") == 30


def test_two_of_one_name_are_added_up_and_one_can_be_taken_away(shown: Shown) -> None:
    one, other = Batcher(max_buffer_size=10), Batcher(max_buffer_size=20)
    instrument(one, shown.registry)
    with instrument(other, shown.registry):
        assert shown("buffer_size_operations") == 30
    assert shown("buffer_size_operations") == 10


def test_a_kind_of_the_users_own_joins(shown: Shown) -> None:
    class Oven:
        heat = 200.0

        def __init__(self) -> None:
            self.batcher = Batcher(max_buffer_size=7)

    class OvenPart:
        def __init__(self, oven: Oven) -> None:
            self.subject = oven

        def read(self) -> Iterable[Reading]:
            return [Reading(names.DEMAND, ("oven",), self.subject.heat)]

    @instrumentable(Oven)
    def parts_of_oven(oven: Oven, options: Options) -> list[Part]:
        return [OvenPart(oven)]

    class Bakery:
        """Consists of others."""

        def __init__(self) -> None:
            self.oven = Oven()

        @property
        def consists_of(self) -> list[object]:
            return [self.oven, self.oven.batcher]

    bakery = Bakery()
    instrument(bakery, shown.registry)
    assert shown("demand", limit="oven") == 200
    assert shown("buffer_size_operations") == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"subject": 3}, "instrument() takes a Batcher"),
        ({"name": ""}, "name must be a text that is not empty, not ''"),
        ({"registry": "x"}, "registry must be a CollectorRegistry, not 'x'"),
        ({"exemplar": 5}, "exemplar must be callable, not 5"),
        ({"cost_buckets": [5, 1]}, "cost_buckets must ascend, not [5, 1]"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, Any], said: str) -> None:
    subject = arguments.pop("subject", None) or Batcher()
    with pytest.raises(ValueError, match=re.escape(said)):
        instrument(subject, **{"registry": CollectorRegistry(), **arguments})


def test_costs_have_buckets_of_the_users_own(shown: Shown) -> None:
    batcher = Batcher()
    instrument(batcher, shown.registry, cost_buckets=[0.5, 3])
    with batcher:
        batcher.enqueue(Operation(Watcher(lambda batch: None), 2, None))
    assert shown("batch_cost_bucket", le="0.5") == 0
    assert shown("batch_cost_bucket", le="3.0") == 1


def test_the_text_parses(shown: Shown) -> None:
    limiter = SharedResource(shared_capacity=10, lease_manager=MemoryLeaseManager('od"d\\\n'))
    batcher = Batcher(rate_limiter=limiter)
    instrument(batcher, shown.registry)
    families = {it.name: it for it in parse(generate_latest(shown.registry).decode())}
    assert families["dispatcher_operations"].type == "counter"
    assert families["dispatcher_callback_seconds"].type == "histogram"
    assert families["dispatcher_demand"].samples[0].labels == {"limit": 'od"d\\\n'}
    assert all(family.documentation for family in families.values())


def test_serving_is_for_this_machine_and_ends(shown: Shown) -> None:
    instrument(Batcher(), shown.registry)
    batcher = Batcher()
    instrument(batcher, shown.registry)
    with serve(0, registry=shown.registry) as server:
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            assert b"dispatcher_pauses_total" in answer.read()
        with pytest.raises(
            MetricsServerError, match=rf"at 127.0.0.1:{server.port}: .*another port"
        ):
            serve(server.port)
    with suppress(OSError):
        urllib.request.urlopen(server.url, timeout=10)
        pytest.fail("it still serves")
    server.close()
    with pytest.raises(ValueError, match="port must be a whole number from 0 to 65535, not 99999"):
        serve(99_999)


def test_importing_starts_nothing() -> None:
    program = (
        "import sys, threading, dispatcher\n"
        "assert not {'prometheus_client', 'redis'} & set(sys.modules), 'import dispatcher'\n"
        "import dispatcher.metrics\n"
        "assert 'redis' not in sys.modules\n"
        "assert threading.active_count() == 1\n"
        "from prometheus_client import REGISTRY, generate_latest\n"
        "assert b'dispatcher_' not in generate_latest(REGISTRY)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_prometheus_clients_own_registry_is_used_if_none_is_said() -> None:
    batcher = Batcher()
    with instrument(batcher, name="own"):
        labels = {"batcher": "own", "limit": ""}
        assert REGISTRY.get_sample_value("dispatcher_pauses_total", labels) == 0


WORKER = """
import sys
from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import instrument
batcher = Batcher()
instrument(batcher, name="orders")
watcher = Watcher(lambda batch: None, max_batch_size=10)
with batcher:
    for round in range(2):
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(100)])
        batcher.drain()
        print("drained", flush=True)
        if sys.stdin.readline() == "end\\n":
            break
"""


def test_several_processes_are_shown_as_one(tmp_path: Path) -> None:
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    scrape = (
        "import urllib.request\n"
        "from dispatcher.metrics import serve\n"
        "with serve() as server:\n"
        "    print(urllib.request.urlopen(server.url).read().decode())\n"
    )

    def shown() -> dict[tuple[str, ...], float]:
        done = subprocess.run(
            [sys.executable, "-c", scrape],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in parse(done.stdout)
            for sample in family.samples
        }

    done = ("dispatcher_operations_total", "", "done", "orders")
    size = ("dispatcher_batch_size_count", "", "orders")
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "drained\n"
        wait_until(lambda: shown().get(done) == 200)
        now = shown()
        assert now[size] == 20
        assert now["dispatcher_batch_size_bucket", "", "10.0", "orders"] == 20
        assert now["dispatcher_batch_size_bucket", "", "5.0", "orders"] == 0
        assert now["dispatcher_buffer_size_operations", "", "orders"] == 20_000
        workers[0].kill()  # what it has counted stays
        workers[0].wait()
        out, _ = workers[1].communicate("\nend\n", timeout=60)
        assert out == "drained\n"
        assert shown()[done] == 300  # the last copy is made at the end
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
