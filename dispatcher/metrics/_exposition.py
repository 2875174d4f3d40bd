"""Readings as the text that Prometheus reads, and a collector as a registry of its own."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dispatcher.metrics._collector import families
from dispatcher.metrics.readings import Readings


def text_of(readings: Readings) -> str:
    """Return the text of a scrape."""
    return generate_latest(registry_of(_Fixed(readings))).decode()


def registry_of(collector: Collector) -> CollectorRegistry:
    """Return a registry that asks `collector` alone."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


class _Fixed(Collector):
    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterable[Metric]:
        return families(self._readings)


def default_page() -> tuple[bytes, str]:
    """Return the text of the default registry of prometheus-client, and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
