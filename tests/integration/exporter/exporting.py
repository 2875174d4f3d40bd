"""Exporters in processes of their own, and what there is to be shown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
import weakref
from collections.abc import Callable
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families as parse

from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.cluster import ClusterCollector
from limiters import RedisLeaseManager, SharedResource
from limiters.leases._messages import Terms

COMMAND = [sys.executable, "-m", "dispatcher.cli.main", "exporter"]
TERMS = Terms.scalar(1_000, 100, 1_000, 1_000)
PATIENCE = 60
Samples = dict[tuple[str, ...], float]


def samples_of(text: str) -> Samples:
    """Each sample, by its name and the values of its labels, in order."""
    return {
        (sample.name.removeprefix("dispatcher_"), *sorted(sample.labels.values())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


class Exporter:
    """One, in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.log: list[str] = []

    def __enter__(self) -> Self:
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        found = re.search(r"serving (\S+), from Redis at", line)
        assert found, line + self._process.stderr.read()
        self.url = found[1]
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def scrape(self) -> Samples:
        with urllib.request.urlopen(self.url, timeout=30) as answer:
            return samples_of(answer.read().decode())

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code, and what it logged after the first line."""
        self._process.send_signal(number)
        _, logged = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, logged


def once(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--once", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | environment,
    )


def make(manager: RedisLeaseManager) -> None:
    """Sets the limit, as an operator does."""
    assert manager.set_terms(
        capacity=TERMS.capacity,
        factor=TERMS.factor,
        period=TERMS.period / 1000,
        lease_time=TERMS.lease / 1000,
    )


def limiter_of(url: str, name: str = "orders", **changes: Any) -> SharedResource:
    settings = {"shared_capacity": 1_000, "parts": 10, "max_interval": 0.1} | changes
    manager = RedisLeaseManager(url, name=name, lease_time=1)
    limiter = SharedResource(lease_manager=manager, **settings)
    weakref.finalize(limiter, manager.close)
    return limiter


def work(limiter: SharedResource, count: int, on_batch: Callable[..., Any] | None = None) -> None:
    """Has so many operations of cost 1 go through, and stops."""
    watcher = Watcher(on_batch or (lambda batch: None), max_batch_size=10)
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(count)])


def read(collector: ClusterCollector, metric: names.Metric) -> dict[tuple[str, ...], Any]:
    """The values of one metric."""
    return {it.labels: it.value for it in collector.read() if it.metric == metric}
