"""instrument: shows objects in a registry of Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry

from dispatcher.metrics._collector import PartsCollector
from dispatcher.metrics._mirror import Mirror, is_multi_process
from dispatcher.metrics.parts import Options, Part, parts_of
from limiters._support.forking import begin_in_child
from limiters._support.validation import ArgumentError, amount, function, text

_collectors: WeakKeyDictionary[CollectorRegistry, PartsCollector] = WeakKeyDictionary()
_mirrored: PartsCollector | None = None
_lock = threading.Lock()


class Instrumented:
    """The result of `instrument`. `remove()`, or the end of its `with` block, undoes it."""

    def __init__(self, collector: PartsCollector, parts: Sequence[Part]) -> None:
        self._collector = collector
        self._parts = parts

    def remove(self) -> None:
        """Remove it from the registry. Idempotent."""
        self._collector.remove(self._parts)

    def __enter__(self) -> Instrumented:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def instrument(
    subject: object,
    registry: CollectorRegistry | None = None,
    *,
    name: str | None = None,
    exemplar: Callable[[list[Any]], Mapping[str, str]] | None = None,
    cost_buckets: Sequence[float] | None = None,
) -> Instrumented:
    """Show a Batcher, a limiter, a Timeline, a gate, a builder or a Worker to Prometheus.

    * `registry`: where it is shown; by default that of prometheus-client.
    * `name`: the label `batcher`, `gate` or `builder`, and `limit` of a limiter that has no name
      of its own. What has the same labels is added up.
    * `exemplar`: called with the operations of each batch that ends; what it returns, such as
      {"trace_id": ...}, is shown with `callback_seconds`. It is called on the Batcher's thread.
    * `cost_buckets`: the bounds of `batch_cost`, if what your operations cost needs others.

    With a Batcher its limiter is shown, and the Batcher has its label `limit`. Values are read at
    each scrape; of batches four figures are noted when they begin and end, and none of single
    operations. It keeps nothing alive, and counters stay. To instrument an object again in the same
    registry changes nothing.

    In multi-process mode (PROMETHEUS_MULTIPROC_DIR) and without a registry of one's own, values
    are copied to the files of that mode every second; call it in each process, after the fork.

    Thread-safe.

    >>> from prometheus_client import CollectorRegistry
    >>> from dispatcher import Batcher
    >>> registry = CollectorRegistry()
    >>> batcher = Batcher()
    >>> _ = instrument(batcher, registry, name="orders")
    >>> labels = {"batcher": "orders", "limit": "", "outcome": "done"}
    >>> registry.get_sample_value("dispatcher_operations_total", labels)
    0
    """
    if name is not None:
        text("name", name)
    if registry is not None and not isinstance(registry, CollectorRegistry):
        raise ArgumentError("registry", registry, "be a CollectorRegistry")
    if exemplar is not None:
        function("exemplar", exemplar)
    if cost_buckets is not None and not isinstance(cost_buckets, Iterable):
        raise ArgumentError("cost_buckets", cost_buckets, "be a list of numbers that ascend")
    bounds = tuple(
        amount("cost_buckets", one) for one in (() if cost_buckets is None else cost_buckets)
    )
    if list(bounds) != sorted(set(bounds)):
        raise ArgumentError("cost_buckets", cost_buckets, "ascend")
    collector = _collector_of(registry)
    options = Options(name, exemplar, bounds or None, collector.limit_of)
    return Instrumented(collector, collector.add(parts_of(subject, options)))


def _collector_of(registry: CollectorRegistry | None) -> PartsCollector:
    global _mirrored
    with _lock:
        if registry is None and is_multi_process():
            if _mirrored is None:
                _mirrored = PartsCollector()
                Mirror(_mirrored).start()
            return _mirrored
        registry = registry or REGISTRY
        collector = _collectors.get(registry)
        if collector is None:
            collector = _collectors[registry] = PartsCollector()
            registry.register(collector)
        return collector


def _begin_in_child() -> None:
    # What is mirrored is the parent's, and its thread has stayed there.
    global _mirrored, _lock
    _mirrored, _lock = None, threading.Lock()
    for collector in list(_collectors.values()):
        collector.renew_locks()


begin_in_child(_begin_in_child)
