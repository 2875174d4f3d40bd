"""Metrics of a Batcher: its totals, its state, and the distributions of its batches."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator

from dispatcher.batcher import Batcher
from dispatcher.metrics import _names as names
from dispatcher.metrics._kinds.limits import ForeignLimiterPart, label_of
from dispatcher.metrics._kinds.watch import Watch
from dispatcher.metrics.parts import Options, Part, instrumentable, parts_of
from dispatcher.metrics.readings import Reading, by_dimension
from dispatcher.state import State
from limiters.provisioned import ProvisionedResource
from limiters.shared import SharedResource


class BatcherPart:
    """Reads one Batcher; of one that is gone, what it had counted."""

    def __init__(self, batcher: Batcher, options: Options) -> None:
        self._batcher = weakref.ref(batcher)
        self._totals = batcher.live_totals
        self._labels = (options.name or "default", label_of(batcher.rate_limiter, options))
        limiter = batcher.rate_limiter
        self._dimensions = () if limiter is None else limiter.limits.dimensions
        self._watch = Watch(options, self._dimensions if len(self._dimensions) > 1 else ())

    def begin(self) -> None:
        batcher = self._batcher()
        if batcher is not None:
            batcher.observe(self._watch)

    @property
    def subject(self) -> Batcher | None:
        return self._batcher()

    def read(self) -> Iterator[Reading]:
        totals, watch, labels = self._totals, self._watch, self._labels
        for outcome in ("done", "failed", "abandoned", "returned"):
            yield Reading(names.OPERATIONS, (*labels, outcome), getattr(totals, outcome))
        for outcome in ("done", "failed", "abandoned"):
            yield Reading(names.BATCHES, (*labels, outcome), getattr(totals, f"batches_{outcome}"))
        yield Reading(names.THROTTLED, labels, totals.throttled)
        yield Reading(names.RETRIES, labels, totals.retried)
        yield Reading(names.PAUSES, labels, totals.pauses)
        seen = watch.read()
        yield Reading(names.BATCH_SIZE, labels, seen.size)
        for dimension, costs in seen.costs.items():
            yield Reading(names.BATCH_COST, (*labels, *dimension), costs)
        for dimension, settled in seen.settled.items():
            yield Reading(names.SETTLED, (*labels, "estimated", *dimension), settled.estimated)
            yield Reading(names.SETTLED, (*labels, "actual", *dimension), settled.actual)
            yield Reading(names.SETTLED_RATIO, (*labels, *dimension), settled.ratio)
        yield Reading(names.OPERATION_WAIT, labels, seen.wait)
        yield Reading(names.CALLBACK, labels, seen.callback, seen.exemplars)
        batcher = self._batcher()
        if batcher is not None:
            yield Reading(names.BUFFER, labels, batcher.operations_in_buffer)
            yield Reading(names.BUFFER_SIZE, labels, batcher.max_buffer_size)
            needs = batcher.needs_capacity
            yield from by_dimension(names.NEEDS, labels, needs, self._dimensions)
            yield Reading(names.INFLIGHT, labels, batcher.inflight)
            yield Reading(names.PAUSED, labels, batcher.state is State.PAUSED)


@instrumentable(Batcher)
def parts_of_batcher(batcher: Batcher, options: Options) -> Iterable[Part]:
    """Return the part of a Batcher, and those of its limiter."""
    yield BatcherPart(batcher, options)
    limiter = batcher.rate_limiter
    if isinstance(limiter, (ProvisionedResource, SharedResource)):
        yield from parts_of(limiter, options)
    elif limiter is not None:
        yield ForeignLimiterPart(limiter, options)
