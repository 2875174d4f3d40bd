"""Multi-process mode: what this process reads is copied to the files that another one shows.

There a registry asks no collectors; it adds up what the values of all processes say that lie in
PROMETHEUS_MULTIPROC_DIR. So a thread copies readings there, every second and at the end.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import Any

from prometheus_client import values

from dispatcher.metrics._collector import PartsCollector, le_of
from dispatcher.metrics._names import Metric
from dispatcher.metrics.readings import Reading
from limiters._stats.histogram import Histogram
from limiters._support.rate_limited_log import RateLimitedLog

_log = logging.getLogger("dispatcher.metrics")

EVERY = 1.0
"""Seconds between two copies."""

GONE = {"sum": 0.0, "max": 0.0, "min": 1.0}
"""The value of a gauge whose object is gone, by how those of several processes are combined. A
file keeps its values, and none may show an object that is gone as waiting or away."""


def is_multi_process() -> bool:
    """Whether prometheus-client was imported in that mode."""
    return bool(getattr(values.ValueClass, "_multiprocess", False))


class Mirror:
    """Copies what `collector` reads. Started once; ends with the process."""

    def __init__(self, collector: PartsCollector) -> None:
        self._collector = collector
        self._process = os.getpid()
        self._values: dict[tuple[object, ...], Any] = {}
        self._counted: dict[tuple[object, ...], float] = {}
        self._gauges: set[tuple[Metric, tuple[str, ...]]] = set()
        """Gauges of the last copy, and their labels."""
        self._lock = threading.Lock()
        self._damped = RateLimitedLog(_log)

    def start(self) -> None:
        """Start copying, every second and when the process ends."""
        threading.Thread(target=self._run, name="dispatcher-metrics", daemon=True).start()
        atexit.register(self._try_to_copy)

    def copy(self) -> None:
        """Copy all values to the files, once."""
        if os.getpid() != self._process:  # in a forked child they are its parent's
            return
        with self._lock:
            readings = list(self._collector.read())
            for reading in readings:
                self._copy(reading)
            gauges = {(one.metric, one.labels) for one in readings if one.metric.kind == "gauge"}
            for metric, labels in self._gauges - gauges:
                self._value(metric, metric.name, (), labels).set(GONE[metric.together])
            self._gauges = gauges

    def _run(self) -> None:
        while True:
            time.sleep(EVERY)
            self._try_to_copy()

    def _try_to_copy(self) -> None:
        try:
            self.copy()
        except Exception as error:  # a full disk may have room again
            self._damped.log(
                logging.ERROR,
                "metrics could not be copied for the process that shows them: %s",
                error,
                exc_info=error,
                extra={"happening": "metrics-not-copied", "error": type(error).__name__},
            )

    def _copy(self, reading: Reading) -> None:
        metric, labels, value = reading.metric, reading.labels, reading.value
        if isinstance(value, Histogram):
            for at, count in enumerate(value.counts):
                told = (*labels, le_of(value, at))
                self._count(metric, f"{metric.name}_bucket", ("le",), told, count)
            self._count(metric, f"{metric.name}_sum", (), labels, value.sum)
        elif metric.kind == "counter":
            # Of what all processes read in one place, the sum would say nothing.
            if metric.together == "sum":
                self._count(metric, metric.name, (), labels, value)
        else:
            self._value(metric, metric.name, (), labels).set(value)

    def _count(
        self, metric: Metric, name: str, more: tuple[str, ...], labels: tuple[str, ...], now: float
    ) -> None:
        """Add the difference to the last copy."""
        place = name, labels
        before = self._counted.get(place, 0.0)
        value = self._value(metric, name, more, labels)
        if now != before:
            value.inc(now - before if now > before else now)
            self._counted[place] = now

    def _value(
        self, metric: Metric, name: str, more: tuple[str, ...], labels: tuple[str, ...]
    ) -> Any:
        """Return the value of these labels. `more`: labels that the metric itself lacks."""
        place = name, labels
        if place not in self._values:
            family = metric.name.removesuffix("_total")
            names = (*metric.labels[: len(labels) - len(more)], *more)
            self._values[place] = values.ValueClass(
                metric.kind,
                family,
                name,
                names,
                labels,
                metric.text,
                multiprocess_mode=f"live{metric.together}",
            )
        return self._values[place]
