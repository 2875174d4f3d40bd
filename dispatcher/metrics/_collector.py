"""The collector that a registry of prometheus-client asks, and how readings become samples."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dispatcher.metrics import _names as names
from dispatcher.metrics.parts import Beginning, OfLimiter, Part
from dispatcher.metrics.readings import Reading, Readings
from limiters._stats.histogram import Histogram

_log = logging.getLogger("dispatcher.metrics")


class PartsCollector(Collector):
    """Reads its parts at each scrape: one for each registry. Thread-safe.

    A part that cannot be read is left out, and the log says so once, until it can again.
    """

    def __init__(self) -> None:
        self.renew_locks()
        self._parts: list[Part] = []
        self._retired = Readings()
        """Counters of things that are gone: counters never go back."""
        self._silent: set[int] = set()

    def renew_locks(self) -> None:
        """For a forked child: threads that stayed in its parent may have held them."""
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        """Held while values are read. Parts may ask Redis meanwhile, so the other lock is free."""

    def add(self, parts: Iterable[Part]) -> list[Part]:
        """Read these parts, too, unless their things are read already. Return the new ones."""
        parts = list(parts)
        with self._lock:
            known = {id(part.subject) for part in self._parts if part.subject is not None}
            new = [part for part in parts if id(part.subject) not in known]
            self._parts += new
        for part in new:
            if isinstance(part, Beginning):
                part.begin()
        return new

    def limit_of(self, limiter: object) -> str | None:
        """Return the label of a limiter that is read already; None if it is not."""
        with self._lock:
            known = [part for part in self._parts if part.subject is limiter]
        return next((part.limit for part in known if isinstance(part, OfLimiter)), None)

    def remove(self, parts: Iterable[Part]) -> None:
        """Stop reading these parts, and forget what they counted."""
        gone = set(map(id, parts))
        with self._lock:
            self._parts = [one for one in self._parts if id(one) not in gone]
            self._silent -= gone

    def read(self) -> Readings:
        """Read all parts, those that are gone for the last time."""
        with self._reading:
            for part in self._gone():
                for reading in self._read(part):
                    if reading.metric.kind != "gauge":
                        self._retired.add(reading)
            readings = Readings(self._retired)
            with self._lock:
                parts = list(self._parts)
            for part in parts:
                for reading in self._read(part):
                    readings.add(reading)
            return readings

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry would read everything only to learn names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read all values, for the registry that is scraped."""
        return families(self.read())

    def _gone(self) -> list[Part]:
        """Remove the parts of things that are gone, and return them."""
        kept: list[Part] = []
        gone: list[Part] = []
        with self._lock:
            for part in self._parts:
                (gone if part.subject is None else kept).append(part)
            self._parts = kept
        return gone

    def _read(self, part: Part) -> list[Reading]:
        readings: list[Reading] = []
        try:
            readings.extend(part.read())
        except Exception as error:  # the other parts are shown all the same
            if id(part) not in self._silent:
                self._silent.add(id(part))
                what = type(part).__name__
                facts = {"happening": "unreadable", "what": what, "error": type(error).__name__}
                _log.warning("%s cannot be read: %s", what, error, extra=facts)
        else:
            self._silent.discard(id(part))
        return readings


def families(readings: Readings) -> Iterator[Metric]:
    """Convert readings to the families of samples that prometheus-client writes."""
    found = readings.by_metric()
    for metric in names.METRICS:
        if metric in found:
            yield _family(metric, found[metric])


def _family(metric: names.Metric, readings: list[Reading]) -> Metric:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for reading in readings:
            assert isinstance(reading.value, Histogram)
            histogram.add_metric(reading.labels, _buckets(reading), reading.value.sum)
        return histogram
    if metric.kind == "summary":
        summary = SummaryMetricFamily(metric.name, metric.text, labels=metric.labels)
        for reading in readings:
            assert isinstance(reading.value, Histogram)
            summary.add_metric(reading.labels, sum(reading.value.counts), reading.value.sum)
        return summary
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(metric.name, metric.text, labels=metric.labels)
    for reading in readings:
        assert not isinstance(reading.value, Histogram)
        family.add_metric(reading.labels, reading.value)
    return family


def _buckets(reading: Reading) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    value = reading.value
    assert isinstance(value, Histogram)
    below = 0
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for at, count in enumerate(value.counts):
        below += count
        bound = le_of(value, at)
        found = (reading.exemplars or {}).get(at)
        if found:
            buckets.append((bound, below, Exemplar(dict(found[0]), *found[1:])))
        else:
            buckets.append((bound, below))
    return buckets


def le_of(value: Histogram, bucket: int) -> str:
    """Return the bound of a bucket as Prometheus writes it.

    >>> le_of(Histogram((0.5,)), 0), le_of(Histogram((0.5,)), 1)
    ('0.5', '+Inf')
    """
    bound = value.bounds[bucket] if bucket < len(value.bounds) else float("inf")
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]
