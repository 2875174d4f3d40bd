"""A registry of a test's own, and what is in it."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from dispatcher import Operation, Watcher

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


def operations(watcher: Watcher, count: int, cost: Any = 1) -> list[Operation]:
    return [Operation(watcher, cost, number, batchable=True) for number in range(count)]
