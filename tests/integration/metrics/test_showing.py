"""Metrics as text, behind a port, and of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from dispatcher import Batcher
from dispatcher.metrics import MetricsServerError, instrument, serve
from dispatcher.metrics import _mirror as mirror
from dispatcher.metrics._collector import PartsCollector
from dispatcher.metrics.readings import Readings
from limiters import MemoryLeaseManager, SharedResource
from tests.integration.metrics.shown import Shown
from tests.logged import told_of
from tests.waiting import until


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


def test_the_registry_of_prometheus_client_is_the_default() -> None:
    batcher = Batcher()
    with instrument(batcher, name="own"):
        labels = {"batcher": "own", "limit": ""}
        assert REGISTRY.get_sample_value("dispatcher_pauses_total", labels) == 0


WORKER = """
import sys
from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import instrument
from limiters import Limits, ProvisionedResource, Rate
batcher = Batcher()
instrument(batcher, name="orders")
api = ProvisionedResource(Limits(requests=Rate(10), tokens=Rate(100)))
instrument(api, name="api")
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
        until(lambda: shown().get(done) == 200)
        now = shown()
        assert now[size] == 20
        assert now["dispatcher_batch_size_bucket", "", "10.0", "orders"] == 20
        assert now["dispatcher_batch_size_bucket", "", "5.0", "orders"] == 0
        assert now["dispatcher_buffer_size_operations", "", "orders"] == 20_000
        assert now["dispatcher_capacity", "api", "max", "tokens"] == 200
        workers[0].kill()  # what it has counted stays
        workers[0].wait()
        out, _ = workers[1].communicate("\nend\n", timeout=60)
        assert out == "drained\n"
        assert shown()[done] == 300  # the last copy is made at the end
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


ENDING = """
import gc
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics._mirror import Mirror
from dispatcher.metrics._collector import PartsCollector
from dispatcher.metrics.parts import Options, parts_of
from limiters import MemoryLeaseManager, SharedResource

registry, parts = CollectorRegistry(), PartsCollector()
MultiProcessCollector(registry)
mirror = Mirror(parts)

def show(what):
    mirror.copy()
    print(what)
    print(generate_latest(registry).decode())

def work():
    limiter = SharedResource(shared_capacity=10, lease_manager=Away("orders"))
    batcher = Batcher(rate_limiter=limiter)
    parts.add(parts_of(batcher, Options("orders")))
    with batcher:
        batcher.pause(60)
        batcher.enqueue_many([Operation(Watcher(print), 5, n) for n in range(3)])
        limiter.give_me(5, "another")
        while limiter.standing().connected is not False:
            pass
        show("there")
        batcher.stop(drain=False)

class Away(MemoryLeaseManager):
    def sync(self, request):
        raise OSError("away")

work()
gc.collect()
show("gone")
"""


def test_what_is_gone_is_not_there_any_more_in_multi_process_mode_either(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING],
        env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    there, gone = (
        {sample.name: sample.value for family in parse(said) for sample in family.samples}
        for said in done.stdout.removeprefix("there\n").split("gone\n")
    )
    state = ("buffer_operations", "needs_capacity", "paused", "redis_up")
    assert [there[f"dispatcher_{name}"] for name in state] == [3, 15, 1, 0]
    assert [gone[f"dispatcher_{name}"] for name in state] == [0, 0, 0, 1]
    assert gone["dispatcher_pauses_total"] == there["dispatcher_pauses_total"] == 1


def test_a_copy_that_fails_is_logged_and_made_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class OnAFullDisk(PartsCollector):
        copies = 0

        def read(self) -> Readings:
            self.copies += 1
            if self.copies == 1:
                raise OSError("No space left on device")
            return super().read()

    monkeypatch.setattr(mirror, "EVERY", 0.001)
    parts = OnAFullDisk()
    mirror.Mirror(parts).start()
    until(lambda: parts.copies > 1)
    assert len(told_of("metrics-not-copied", caplog)) == 1
    assert "No space left" in caplog.text
